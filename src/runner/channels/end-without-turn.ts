/** Ends a job that never became a turn, with the same frames in the same order as a turn. Pure. */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import type { Outcome } from "../turn/turn.ts"
import type { ChannelAddress } from "../../wire/channel.ts"
import { type Job, jobId } from "./jobs.ts"

export const endWithoutTurn = (
  job: Job,
  channel: ChannelAddress,
  outcome: Outcome,
): readonly OutboundFrame[] => {
  const address = { messageId: jobId(job), ...channel }
  const error: readonly OutboundFrame[] =
    outcome.type === "error" ? [{ type: "error", error: outcome.error, ...address }] : []
  return [
    ...error,
    { type: "complete", ...address },
    { type: "agentStatus", status: "idle", ...address },
  ]
}

/** An OpenCode command is a turn and also a request: its result follows the frames that end the turn. */
export const commandResult = (
  job: Job,
  outcome: Outcome,
  result: string | undefined,
): readonly OutboundFrame[] => {
  if (job.type !== "opencode-command") return []
  const { requestId, command } = job
  if (outcome.type === "error") {
    return [{ type: "command-result", requestId, command, error: outcome.error }]
  }
  if (outcome.type === "canceled") {
    return [{ type: "command-result", requestId, command, error: outcome.reason }]
  }
  return [{ type: "command-result", requestId, command, result: result ?? "" }]
}
