/** The files that differ from the base, as the runner reports them. */
import { computed } from "@preact/signals"
import { view } from "../client/store.ts"

export interface ChangedFile {
  readonly path: string
  readonly status: string
  readonly additions?: number
  readonly deletions?: number
}

const isFile = (value: unknown): value is ChangedFile =>
  typeof value === "object" && value !== null && typeof (value as ChangedFile).path === "string"

/** The same object until the runner reports other files: what depends on it must not run with every event. */
const reported = computed(() => view.value.state["files"])

/** The state is a list of files, or an object with the list and its base. */
export const changedFiles = computed((): readonly ChangedFile[] => {
  const state = reported.value
  const list = Array.isArray(state)
    ? state
    : (state as { readonly files?: unknown } | undefined)?.files
  return Array.isArray(list) ? list.filter(isFile) : []
})

export const base = computed((): string | undefined => {
  const state = view.value.state["files"] as { readonly base?: unknown } | undefined
  if (typeof state?.base === "string") return state.base
  const git = view.value.state["git"] as { readonly base?: unknown } | undefined
  return typeof git?.base === "string" ? git.base : undefined
})
