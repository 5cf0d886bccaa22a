/** Which regions are open, and how wide the panel is. */
import { signal } from "@preact/signals"
import { closeDrawer, isDrawerOpen, openDrawer } from "./drawer.ts"
import { readStored, writeStored } from "./storage.ts"

export const hasSide = signal(readStored("side") !== "closed")
export const panelWidth = signal(Number(readStored("panel-width") ?? 540))
/** The layer over the page. */
export const layer = signal<"settings" | "search" | "shortcuts" | undefined>(undefined)
/** What the search layer looks for when it opens. */
export const searchText = signal("")
export const settingsPage = signal<string>("models")

const narrow = matchMedia("(max-width: 719px)")
const isNarrow = signal(narrow.matches)
// A window may be resized, and a tablet turned.
narrow.addEventListener("change", ({ matches }) => {
  isNarrow.value = matches
})
export const isPhone = (): boolean => isNarrow.value
export const isTouch = (): boolean => matchMedia("(pointer: coarse)").matches

export const toggleSide = (): void => {
  if (isPhone()) return isDrawerOpen.value ? closeDrawer() : openDrawer()
  hasSide.value = !hasSide.value
  writeStored("side", hasSide.value ? undefined : "closed")
}

export const setPanelWidth = (width: number): void => {
  const most = Math.round(innerWidth * 0.6)
  panelWidth.value = Math.max(360, Math.min(most, Math.round(width)))
  writeStored("panel-width", String(panelWidth.value))
}

/** The changes in two columns, where there is room for them. */
export const isSideBySide = signal(readStored("diff") === "sides")

const SIDES_WIDTH = 900

/** Two columns need room: the panel gets as much of it as there is. */
export const toggleSideBySide = (): void => {
  isSideBySide.value = !isSideBySide.value
  if (isSideBySide.value) setPanelWidth(Math.max(panelWidth.value, SIDES_WIDTH))
  writeStored("diff", isSideBySide.value ? "sides" : undefined)
}

export const openSettings = (page: string): void => {
  settingsPage.value = page
  layer.value = "settings"
}
