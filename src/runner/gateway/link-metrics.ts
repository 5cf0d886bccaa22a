/** Metrics of the link and of the turns that are reported over it. `onFrameSent` is a tap of the link. */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import type { LinkCounters } from "../link/counters.ts"
import type { Metric } from "../../lib/prometheus.ts"

export interface LinkMetrics {
  readonly onFrameSent: (frame: OutboundFrame) => void
  readonly onEventStreamLost: () => void
  readonly read: (link: LinkCounters, agentRestarts: number) => readonly Metric[]
}

export const createLinkMetrics = (): LinkMetrics => {
  const turnsByReason = new Map<string, number>()
  let streamLosses = 0
  return {
    onFrameSent: (frame) => {
      if (frame.type !== "message.finalize") return
      turnsByReason.set(frame.reason, (turnsByReason.get(frame.reason) ?? 0) + 1)
    },
    onEventStreamLost: () => {
      streamLosses += 1
    },
    read: (link, agentRestarts) => [
      one("gauge", "sandpiper_outbox_frames", "Frames not acknowledged yet.", link.depth),
      one("gauge", "sandpiper_outbox_bytes", "Bytes of these frames.", link.depthBytes),
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
        values: [...turnsByReason].map(([outcome, value]) => ({ value, labels: { outcome } })),
      },
    ],
  }
}

const one = (type: Metric["type"], name: string, help: string, value: number): Metric => ({
  name,
  help,
  type,
  values: [{ value }],
})
