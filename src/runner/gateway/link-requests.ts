/** What the gateway takes from the link: questions with their failures as statuses, and the link's numbers. */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import type { LinkCounters } from "../link/counters.ts"
import { RequestError, type RequestFailure } from "../link/pending-requests.ts"
import type { Link } from "../link/link.ts"
import { ApiError, type ApiPorts } from "./api.ts"
import type { Gauge } from "./metrics.ts"

const statuses = {
  refused: [502, "refused"],
  timeout: [504, "unanswered"],
  offline: [503, "offline"],
  closing: [503, "closing"],
} as const satisfies Record<RequestFailure, readonly [number, string]>

/** The table has checked the fields against the request's type, which is known here by name only. */
export const requestOverLink =
  (request: Link["request"]): ApiPorts["request"] =>
  async (type, fields, { sessionId }) => {
    try {
      return await request(type as never, { ...fields, opencodeSessionId: sessionId } as never)
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      const [status, code] = statuses[error.failure]
      throw new ApiError(status, code, error.message)
    }
  }

export interface TellPorts {
  readonly send: Link["send"]
  /** The prompt and the channel that an agent session works for. */
  readonly originOf: (sessionId: string) => Readonly<Record<string, string>> | undefined
  /** The agent has said that the session's work is done. */
  readonly completed: () => void
}

/** The table has checked the fields; an image goes to the conversation whose tool shows it. */
export const notifyOverLink =
  ({ send, originOf, completed }: TellPorts): ApiPorts["notify"] =>
  (type, fields, { sessionId }) => {
    const origin = type === "screenshot" && sessionId ? originOf(sessionId) : undefined
    send({ type, ...origin, ...fields } as never)
    if (type === "self-terminate") completed()
  }

export interface Counted {
  readonly send: (frame: OutboundFrame) => void
  readonly eventStreamLost: () => void
  readonly gauges: (link: LinkCounters, agentRestarts: number) => readonly Gauge[]
}

/** Counts turns as they are told, by how they ended. */
export const countedOver = (send: (frame: OutboundFrame) => void): Counted => {
  const turns = new Map<string, number>()
  let streamLosses = 0
  return {
    send: (frame) => {
      if (frame.type === "message.finalize") {
        turns.set(frame.reason, (turns.get(frame.reason) ?? 0) + 1)
      }
      send(frame)
    },
    eventStreamLost: () => {
      streamLosses += 1
    },
    gauges: (link, agentRestarts) => [
      one("gauge", "sandpiper_outbox_frames", "Frames that wait to be acknowledged.", link.depth),
      one("gauge", "sandpiper_outbox_bytes", "Bytes that wait so.", link.depthBytes),
      one("gauge", "sandpiper_ack_lag_ms", "From sending to acknowledgement.", link.ackLagMs),
      one("counter", "sandpiper_link_reconnects_total", "Connections lost.", link.reconnects),
      one("counter", "sandpiper_link_frames_sent_total", "Frames sent.", link.framesOut),
      one("counter", "sandpiper_link_frames_resent_total", "Frames sent again.", link.resent),
      one("counter", "sandpiper_sse_reconnects_total", "Event streams lost.", streamLosses),
      one("counter", "sandpiper_opencode_restarts_total", "Restarts of OpenCode.", agentRestarts),
      {
        name: "sandpiper_turns_total",
        help: "Turns, by how they ended.",
        type: "counter",
        values: [...turns].map(([outcome, value]) => ({ value, labels: { outcome } })),
      },
    ],
  }
}

const one = (type: Gauge["type"], name: string, help: string, value: number): Gauge => ({
  name,
  help,
  type,
  values: [{ value }],
})
