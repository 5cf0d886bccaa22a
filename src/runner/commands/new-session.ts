/** `new-session`: ends the channel's conversation; its next prompt starts a new one. */
import type { Command } from "./command.ts"

export const newSession: Command<"new-session"> = async (
  { channels, send },
  { requestId, channelType, channelId },
) => {
  await channels.resetConversation({ channelType, channelId })
  send({ type: "session-reset", requestId, channelType, channelId })
}
