/** `new-session`: the channel's conversation ends, and its next prompt begins another. */
import type { Command } from "./command.ts"

export const newSession: Command<"new-session"> = async (
  { channels, send },
  { requestId, channelType, channelId },
) => {
  await channels.resetConversation({ channelType, channelId })
  send({ type: "session-reset", requestId, channelType, channelId })
}
