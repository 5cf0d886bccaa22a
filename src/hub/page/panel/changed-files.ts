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

export const changedFiles = computed((): readonly ChangedFile[] => {
  const list = reported.value
  return Array.isArray(list) ? list.filter(isFile) : []
})

/** The branch that the changes are compared with; undefined: the last commit. */
export const base = computed((): string | undefined => {
  const git = view.value.state["git"] as { readonly baseBranch?: unknown } | undefined
  return typeof git?.baseBranch === "string" ? git.baseBranch : undefined
})
