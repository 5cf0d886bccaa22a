/** Commands that are not prompts. */
import { showPanel } from "../client/navigation.ts"
import { channel, request } from "../client/store.ts"
import { channelFields } from "../routes.ts"

/** `false` when the text is not a command: it is sent as a prompt. */
export const runCommand = (text: string): boolean => {
  const [name = "", ...rest] = text.split(" ")
  if (name === "/new") void request({ type: "new-session", ...channelFields(channel.value) })
  else if (name === "/review") showPanel("review")
  else if (name === "/init" || name === "/compact")
    void request({ type: "command", command: name.slice(1), args: rest.join(" ") })
  else return false
  return true
}
