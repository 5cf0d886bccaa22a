/** The frames that answer a job whose id was received before: its current state. The job does not run again. Pure. */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import type { Outcome, Turn } from "../turn/turn.ts"
import type { ChannelAddress } from "../../wire/channel.ts"
import { type Job, jobId } from "./jobs.ts"
import { commandResult, endWithoutTurn } from "./end-without-turn.ts"

export type JobState =
  | { readonly is: "waiting" }
  | { readonly is: "running"; readonly turn: Turn }
  | { readonly is: "ended"; readonly outcome: Outcome }

export const duplicateJobFrames = (
  job: Job,
  channel: ChannelAddress,
  state: JobState,
): readonly OutboundFrame[] => {
  const address = { messageId: jobId(job), ...channel }
  switch (state.is) {
    case "waiting":
      return [{ type: "agentStatus", status: "thinking", detail: "queued", ...address }]
    case "running": {
      const { status, statusDetail: detail } = state.turn
      return [{ type: "agentStatus", status, ...(detail !== undefined && { detail }), ...address }]
    }
    case "ended":
      return [
        ...endWithoutTurn(job, channel, state.outcome),
        ...commandResult(job, state.outcome, undefined),
      ]
  }
}
