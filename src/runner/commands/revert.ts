/** `revert`: a prompt and all that followed it on its channel are taken back, files included; `reverted` names them. */
import { describeError } from "../../lib/log.ts"
import { addressOfKey } from "../../wire/channel.ts"
import type { Verb } from "./command.ts"

export const revert: Verb<"revert"> = async ({ channels, jobs, send, log }, { messageId }) => {
  const known = jobs.messageOf(messageId)
  if (!known) {
    log.warn("revert.unknown-message", { messageId })
    return send({ type: "reverted", messageIds: [] })
  }
  try {
    const address = addressOfKey(known.channelKey)
    // OpenCode refuses to take back what is still being written.
    await channels.stop(address, "taken back by the user")
    await channels.exclusively(address, ({ client }) =>
      client.revert(known.sessionId, known.userMessageId),
    )
    send({ type: "reverted", messageIds: [...known.idsFromHere] })
  } catch (error) {
    log.error("revert.failed", { messageId, error: describeError(error) })
    send({ type: "reverted", messageIds: [], error: describeError(error) })
  }
}
