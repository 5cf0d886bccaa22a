/** Limits failed logins per peer with a token bucket. */
import { peerOf } from "./network-peer.ts"

export interface Attempts {
  /** Counts a failure; true when the peer of this network address has exceeded the limit. */
  readonly failed: (address: string) => boolean
  readonly total: () => number
  readonly peers: () => number
}

const ALLOWED = 20
const REFILL_PER_SECOND = 0.5
const MOST_PEERS = 4096

interface Allowance {
  left: number
  at: number
}

export const RETRY_AFTER_SECONDS = Math.ceil(1 / REFILL_PER_SECOND)

export const createAttempts = (now: () => number): Attempts => {
  const allowances = new Map<string, Allowance>()
  let total = 0
  return {
    failed: (address) => {
      total += 1
      const peer = peerOf(address)
      const at = now()
      const known = allowances.get(peer) ?? { left: ALLOWED, at }
      const left = Math.min(ALLOWED, known.left + ((at - known.at) / 1000) * REFILL_PER_SECOND)
      allowances.delete(peer)
      if (allowances.size >= MOST_PEERS) {
        const [oldest] = allowances.keys()
        if (oldest !== undefined) allowances.delete(oldest)
      }
      allowances.set(peer, { left: Math.max(0, left - 1), at })
      return left < 1
    },
    total: () => total,
    peers: () => allowances.size,
  }
}
