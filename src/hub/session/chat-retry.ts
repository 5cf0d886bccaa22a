/** When a message to a chat service is sent again after a failure, and when it is given up. Pure. */
import { backoffMs } from "../../lib/backoff.ts"

export interface SendFailure {
  /** Attempts so far, with the failed one. */
  readonly attempts: number
  readonly retryable: boolean
  /** What the service asks for. */
  readonly retryAfterMs?: number | undefined
}

export const MAX_SEND_ATTEMPTS = 10
const BACKOFF = { min: 1000, max: 5 * 60 * 1000 }
/** A service that asks for a longer pause is not waited for. */
const MAX_WAIT_MS = 60 * 60 * 1000

/** Milliseconds to the next attempt; `undefined` when there is none. `random` is in [0, 1). */
export const retryInMs = (
  { attempts, retryable, retryAfterMs = 0 }: SendFailure,
  random: number,
): number | undefined => {
  if (!retryable || attempts >= MAX_SEND_ATTEMPTS || retryAfterMs > MAX_WAIT_MS) return undefined
  return Math.max(retryAfterMs, backoffMs(attempts - 1, BACKOFF, random))
}
