/** The address of the page as a signal. Moving keeps the page and everything that is typed. */
import { signal } from "@preact/signals"
import { isDrawerEntry, watchDrawer } from "./drawer.ts"
import { parseRoute, pathOf, type PanelName, type Route } from "../routes.ts"
import { writeStored } from "./storage.ts"

const current = (): Route => parseRoute(location.pathname, location.search, location.hash)

export const route = signal<Route>(current())

const read = () => {
  route.value = current()
}

export const watchAddress = (): void => {
  watchDrawer()
  addEventListener("popstate", read)
  addEventListener("hashchange", read)
}

export const go = (path: string, how: "push" | "replace" = "push"): void => {
  if (how === "push" && !isDrawerEntry()) history.pushState(null, "", path)
  else history.replaceState(null, "", path)
  read()
  const { session, channel, place } = route.value
  if (place === "conversation") writeStored("last", JSON.stringify({ session, channel }))
}

/** Opens a panel in a new entry of the history, so that Back closes it on a phone. */
export const showPanel = (panel: PanelName | undefined): void => {
  const { session, channel, panel: before } = route.value
  if (panel === before) return
  go(pathOf({ session, channel, panel }), before && panel ? "replace" : "push")
}

const LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

/** A conversation that does not exist yet: its first prompt makes it. */
export const newChannel = (): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(8))
  return `web:${[...bytes].map((byte) => LETTERS[byte % LETTERS.length]).join("")}`
}

/** A click that the browser should handle itself: another tab, another window. */
export const isPlainClick = (event: MouseEvent): boolean =>
  event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey
