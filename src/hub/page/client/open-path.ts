/** Opens a place in a file: its changes if it has any, else the editor. */
import { state } from "./store.ts"
import { computed, signal } from "@preact/signals"
import { type FilePlace, workspaceOf } from "../../view/paths.ts"
import { showPanel } from "./navigation.ts"
import { stateOf } from "./slices.ts"

const known = { directory: "" }

/** It stays known while no runner is connected, so that paths do not change on the screen. */
export const workspace = computed((): string => {
  const directory = workspaceOf(state.value)
  if (directory !== "") known.directory = directory
  return known.directory
})

const reported = stateOf("files")

/** The paths that differ from the base, as the runner reports them. */
export const changedPaths = computed((): readonly string[] => {
  const files = reported.value
  const list = Array.isArray(files)
    ? files
    : (files as { readonly files?: unknown } | undefined)?.files
  if (!Array.isArray(list)) return []
  return list.flatMap((file: unknown) => {
    const path = (file as { readonly path?: unknown } | null)?.path
    return typeof path === "string" ? [path] : []
  })
})

/** The place that the panel with the changes should show next. */
export const wantedPlace = signal<FilePlace | undefined>(undefined)

export const openPlace = (place: FilePlace): void => {
  const isChanged = changedPaths.value.includes(place.path)
  if (isChanged) wantedPlace.value = place
  showPanel(isChanged ? "changes" : "editor")
}
