/** The keys of the page, and what they do. None of them is a key that browsers keep for themselves. */
import { focusComposer } from "../client/focus.ts"
import { closeDrawer, isDrawerOpen } from "../client/drawer.ts"
import { layer, openSettings, toggleSide } from "../client/layout.ts"
import { route, showPanel } from "../client/navigation.ts"
import { scrollTo } from "../client/scroll-request.ts"
import { isWorking, openNewConversation, stopTurn, turns } from "../client/store.ts"
import { hasSingleKeys } from "../client/single-keys.ts"
import { textOfMessage } from "../log/message-text.ts"
import type { PanelName } from "../routes.ts"
import { copyText } from "../ui/copy.ts"
import { isMod } from "../ui/keys.ts"
import { moveInList, moveRegion } from "./regions.ts"

/** A second Escape within this time stops the turn although text is typed. */
const TWICE_MS = 1000

const isField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

const togglePanel = (panel: PanelName) => showPanel(route.value.panel === panel ? undefined : panel)

const copyLast = () => {
  const reply = turns.value.at(-1)?.replies.findLast(({ role }) => role === "assistant")
  if (reply) void copyText(textOfMessage(reply))
}

/** Keys with Mod, by `key` and Shift. */
const modKeys: Readonly<Record<string, () => void>> = {
  k: () => (layer.value = "search"),
  b: toggleSide,
  j: () => showPanel(route.value.panel ? undefined : "changes"),
  ",": () => openSettings("models"),
  "shift+o": openNewConversation,
  "shift+d": () => togglePanel("changes"),
  "shift+p": () => togglePanel("preview"),
  "shift+e": () => togglePanel("editor"),
  "shift+c": copyLast,
}

export const watchKeys = (): void => {
  let escapedAt = 0
  const onEscape = (target: EventTarget | null) => {
    if (isDrawerOpen.value) return closeDrawer()
    const now = Date.now()
    const field =
      target instanceof HTMLTextAreaElement && target.id === "prompt" ? target : undefined
    const isTwice = now - escapedAt < TWICE_MS
    escapedAt = now
    if (field && field.value !== "" && !isTwice) return
    if (isWorking.value) return stopTurn()
    if (target instanceof HTMLElement && isField(target)) target.blur()
  }
  const onPlainKey = (event: KeyboardEvent): boolean => {
    if (event.key === "End") {
      scrollTo.value = { to: "end" }
      return true
    }
    if (!hasSingleKeys.value) return false
    if (event.key === "/") focusComposer()
    else if (event.key === "?") openSettings("shortcuts")
    else if (event.key === "j" || event.key === "k") return moveInList(event.key === "j" ? 1 : -1)
    else if (/^[1-9]$/.test(event.key)) {
      const option = document.querySelector<HTMLButtonElement>(`[data-option="${event.key}"]`)
      if (!option) return false
      option.click()
    } else return false
    return true
  }
  addEventListener("keydown", (event) => {
    if (event.isComposing || event.defaultPrevented || document.querySelector("dialog[open]"))
      return
    const inField = isField(event.target)
    if (event.key === "Escape") return onEscape(event.target)
    if (event.key === "F6") {
      event.preventDefault()
      return moveRegion(event.shiftKey ? -1 : 1)
    }
    if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      event.preventDefault()
      scrollTo.value = { to: "prompt", by: event.key === "ArrowUp" ? -1 : 1 }
      return
    }
    if (event.ctrlKey && event.key === "`") {
      event.preventDefault()
      return togglePanel("terminal")
    }
    if (isMod(event) && !event.altKey) {
      const act = modKeys[`${event.shiftKey ? "shift+" : ""}${event.key.toLowerCase()}`]
      if (!act) return
      event.preventDefault()
      return act()
    }
    if (!inField && !event.ctrlKey && !event.metaKey && !event.altKey && onPlainKey(event))
      event.preventDefault()
  })
}
