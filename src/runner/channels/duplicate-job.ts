/** A job that was said before: not done again, but its asker learns how it stands. Pure. */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import type { Outcome, Turn } from "../turn/turn.ts"
import type { ChannelAddress } from "../../wire/channel.ts"
import { type Job, jobId } from "./jobs.ts"
import { commandResult, endUnstarted } from "./end-without-turn.ts"

export type PresentState =
  | { readonly is: "waiting" }
  | { readonly is: "running"; readonly turn: Turn }
  | { readonly is: "ended"; readonly outcome: Outcome }

export const presentState = (
  job: Job,
  channel: ChannelAddress,
  state: PresentState,
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
        ...endUnstarted(job, channel, state.outcome),
        ...commandResult(job, state.outcome, undefined),
      ]
  }
}
