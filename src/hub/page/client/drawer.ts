/** The side as a drawer over the conversation, on a phone. It has an entry of the history, so that Back closes it. */
import { signal } from "@preact/signals"

export const isDrawerOpen = signal(false)

/** The current entry of the history is the one of the drawer: what goes elsewhere from it replaces it. */
export const isDrawerEntry = (): boolean =>
  (history.state as { readonly drawer?: unknown } | null)?.drawer === true

export const openDrawer = (): void => {
  if (isDrawerOpen.value) return
  isDrawerOpen.value = true
  history.pushState({ drawer: true }, "")
}

export const closeDrawer = (): void => {
  if (!isDrawerOpen.value) return
  isDrawerOpen.value = false
  if (isDrawerEntry()) history.back()
}

export const watchDrawer = (): void => {
  // A reload closes it.
  if (isDrawerEntry()) history.replaceState(null, "")
  addEventListener("popstate", () => (isDrawerOpen.value = isDrawerEntry()))
}
