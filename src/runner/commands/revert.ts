/**
 * `revert`: undoes a prompt and all later ones on its channel, with their file changes if the workspace is a git repository.
 * `reverted` lists their ids.
 */
import { describeError } from "../../lib/log.ts"
import { channelAddress } from "../../wire/channel.ts"
import type { Command } from "./command.ts"
import { revertSafely } from "./revert-safely.ts"

export const revert: Command<"revert"> = async (
  { channels, jobs, snapshots, send, log },
  { messageId },
) => {
  const known = jobs.messageOf(messageId)
  if (!known) {
    log.warn("revert.unknown-message", { messageId })
    return send({ type: "reverted", messageIds: [] })
  }
  const address = channelAddress(known.channelKey)
  try {
    // OpenCode refuses to revert a session that is busy.
    await channels.stop(address, "reverted by the user")
    const { filesKept } = await channels.runExclusively(address, ({ client }) =>
      revertSafely(snapshots, client, known.agentSessionId, known.userMessageId),
    )
    send({
      type: "reverted",
      messageIds: [...known.idsFromHere],
      ...(filesKept && { filesKept }),
      ...address,
    })
  } catch (error) {
    log.error("revert.failed", { messageId, error: describeError(error) })
    send({ type: "reverted", messageIds: [], error: describeError(error), ...address })
  }
}
