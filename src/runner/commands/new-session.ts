/** `new-session`: the channel's conversation ends, and its next prompt begins another. */
import type { Verb } from "./command.ts"

export const newSession: Verb<"new-session"> = async (
  { channels, send },
  { requestId, channelType, channelId },
) => {
  await channels.forget({ channelType, channelId })
  send({ type: "session-reset", requestId, channelType, channelId })
}
