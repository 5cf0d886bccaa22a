/** Messages of the browser while the page is hidden: a turn is over, has failed, or waits for the person. */
import { effect, signal } from "@preact/signals"
import { textOfMessage } from "../log/message-text.ts"
import { words } from "../words.ts"
import { readStored, writeStored } from "./storage.ts"
import { dock, isWorking, turns } from "./store.ts"
import { title } from "./title.ts"

type State = "off" | "asking" | "on" | "blocked"

const canNotify = (): boolean => "Notification" in globalThis

const initial = (): State => {
  if (!canNotify() || Notification.permission === "denied") return "blocked"
  return Notification.permission === "granted" && readStored("notify") === "on" ? "on" : "off"
}

export const notifications = signal<State>(initial())

export const toggleNotifications = (): void => {
  if (notifications.value === "on") {
    notifications.value = "off"
    writeStored("notify", undefined)
  } else void ask()
}

const ask = async () => {
  if (!canNotify()) return
  notifications.value = "asking"
  const permission = await Notification.requestPermission()
  notifications.value =
    permission === "granted" ? "on" : permission === "denied" ? "blocked" : "off"
  if (permission === "granted") writeStored("notify", "on")
}

const MAX_TEXT = 120

const show = (what: string, text: string) => {
  if (!document.hidden || notifications.value !== "on") return
  const [line = ""] = text.trim().split("\n", 1)
  const shown = new Notification(`${what}: ${title.value}`, {
    body: line.slice(0, MAX_TEXT),
    icon: "/favicon.svg",
    tag: title.value,
  })
  shown.addEventListener("click", () => {
    focus()
    shown.close()
  })
}

/** The last reply of the conversation. */
const lastReply = () => turns.peek().at(-1)?.replies.at(-1)

export const watchForNotifications = (): void => {
  const before = { working: false, asked: "" }
  effect(() => {
    const working = isWorking.value
    const [open] = dock.value.interactions
    const reply = lastReply()
    if (before.working && !working && reply)
      show(
        reply.status === "error" ? words.notifyFailed : words.notifyDone,
        reply.error ?? textOfMessage(reply),
      )
    if (open && open.id !== before.asked) show(words.notifyWaits, open.text ?? open.title ?? "")
    before.working = working
    before.asked = open?.id ?? ""
  })
}
