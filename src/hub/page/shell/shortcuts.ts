/** The keys of the page, and what they do. None of them is a key that browsers keep for themselves. */
import { focusComposer } from "../client/focus.ts"
import { layer, openSettings, toggleSide, isDrawerOpen } from "../client/layout.ts"
import { route, showPanel } from "../client/navigation.ts"
import { scrollTo } from "../client/scroll-request.ts"
import { isWorking, openNewConversation, stopTurn, turns } from "../client/store.ts"
import { textOfMessage } from "../log/message-text.ts"
import type { PanelName } from "../routes.ts"
import { copyText } from "../ui/copy.ts"
import { isMod } from "../ui/keys.ts"

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

/** Each region and what gets the focus in it; the first that is there. */
const REGIONS: readonly (readonly [area: string, ...entries: string[]])[] = [
  ["#side", "#side a[aria-current]", "#side .side-new"],
  ["#log", "#log"],
  ["#dock", "#prompt", "#dock button"],
  ["#panel", "#panel [role=tab][aria-selected=true]"],
]

/** F6 goes round the regions of the page. */
const moveRegion = (by: 1 | -1) => {
  const found = REGIONS.flatMap(([area, ...entries]) => {
    const entry = entries
      .map((selector) => document.querySelector<HTMLElement>(selector))
      .find((element) => element !== null)
    return entry ? [{ area: document.querySelector(area), entry }] : []
  })
  const at = found.findIndex(({ area }) => area?.contains(document.activeElement))
  // Outside of every region, the first key goes to the first or the last one.
  const next = at === -1 && by === -1 ? -1 : at + by
  found.at(next % found.length)?.entry.focus()
}

export const watchKeys = (): void => {
  let escapedAt = 0
  const onEscape = (target: EventTarget | null) => {
    if (isDrawerOpen.value) {
      isDrawerOpen.value = false
      return
    }
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
    if (event.key === "/") focusComposer()
    else if (event.key === "?") openSettings("shortcuts")
    else if (event.key === "End") scrollTo.value = { to: "end" }
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
