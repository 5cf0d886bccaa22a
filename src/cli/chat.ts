/** `sandpiper chat`: a prompt or a conversation with a session of the running `sandpiper up`. */
import { systemClock } from "../lib/clock.ts"
import type { Command } from "./command.ts"
import { openHistory } from "./chat/history-file.ts"
import { findHub, sessionOf, stateDirOf } from "./find-hub.ts"
import { startChat } from "./terminal-chat.ts"

export const chat: Command = ({ settings, args: { text, json } }) => {
  const hub = findHub(settings)
  const conversation = startChat({
    input: process.stdin,
    output: process.stdout,
    interactive: process.stdin.isTTY === true && text === undefined,
    clock: systemClock,
    hub,
    session: sessionOf(settings, hub),
    model: settings.model,
    text,
    json,
    piped: "one prompt",
    history: openHistory(stateDirOf(settings)),
  })
  process.on("SIGINT", conversation.interrupt)
  return conversation.finished
}
