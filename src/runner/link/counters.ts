/** What the link has done so far, in numbers: for /metrics, for the log, for whoever asks why it is slow. */
import type { OutboxStats } from "./outbox.ts"

export interface LinkCounters {
  readonly framesOut: number
  readonly bytesOut: number
  readonly framesIn: number
  readonly bytesIn: number
  /** Frames that went out more than once, because a connection ended before they were acknowledged. */
  readonly resent: number
  readonly coalesced: number
  readonly depth: number
  readonly depthBytes: number
  readonly reconnects: number
  /** Answers that nobody waited for: late, repeated or unasked. */
  readonly unasked: number
  /** Milliseconds between sending a frame and its acknowledgement, the last time it was measured. */
  readonly ackLagMs: number
}

export const createCounters = (outbox: () => OutboxStats, now: () => number) => {
  const count = { framesOut: 0, bytesOut: 0, framesIn: 0, bytesIn: 0, resent: 0, unasked: 0 }
  let connections = 0
  let highest = 0
  let ackLagMs = 0
  /** One frame at a time is timed: enough to see the lag, and it costs nothing. */
  let timed: { readonly seq: number; readonly at: number } | undefined
  return {
    connected: () => {
      connections += 1
      timed = undefined
    },
    sent: (seq: number, bytes: number) => {
      count.framesOut += 1
      count.bytesOut += bytes
      if (seq <= highest) count.resent += 1
      highest = Math.max(highest, seq)
      timed ??= { seq, at: now() }
    },
    received: (bytes: number) => {
      count.framesIn += 1
      count.bytesIn += bytes
    },
    acknowledged: (seq: number) => {
      if (!timed || seq < timed.seq) return
      ackLagMs = now() - timed.at
      timed = undefined
    },
    unasked: () => {
      count.unasked += 1
    },
    read: (): LinkCounters => {
      const { frames, bytes, merged } = outbox()
      return {
        ...count,
        coalesced: merged,
        depth: frames,
        depthBytes: bytes,
        reconnects: Math.max(0, connections - 1),
        ackLagMs,
      }
    },
  }
}
