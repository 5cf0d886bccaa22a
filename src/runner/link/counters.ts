/** Counters of the link, for /metrics and the log. */
import type { OutboxStats } from "./outbox.ts"

export interface LinkCounters {
  readonly framesOut: number
  readonly bytesOut: number
  readonly framesIn: number
  readonly bytesIn: number
  /** Frames sent more than once because a connection ended before they were acknowledged. */
  readonly resent: number
  readonly coalesced: number
  readonly depth: number
  readonly depthBytes: number
  readonly reconnects: number
  /** Results without a pending request: late, duplicate or never requested. */
  readonly unexpectedResults: number
  /** Milliseconds between sending a frame and its acknowledgement, from the latest measurement. */
  readonly ackLagMs: number
}

export const createCounters = (outbox: () => OutboxStats, now: () => number) => {
  const count = {
    framesOut: 0,
    bytesOut: 0,
    framesIn: 0,
    bytesIn: 0,
    resent: 0,
    unexpectedResults: 0,
  }
  let connections = 0
  let highest = 0
  let ackLagMs = 0
  /** Only one frame at a time is measured: enough to see the lag, at no cost. */
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
    unexpectedResult: () => {
      count.unexpectedResults += 1
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
