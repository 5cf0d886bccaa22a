/**
 * How fast a lost link is dialed again. Shortly after a loss the session agent is probably restarting, so the waits stay
 * short. Later they grow, so that many runners do not load a session agent that is unreachable for long.
 */
import type { BackoffRange } from "../../lib/backoff.ts"
import { isLoopback } from "../../lib/git-url.ts"

export interface RetryPace {
  /** The waits between attempts. */
  readonly backoff: BackoffRange
  /** Until `quickForMs` after the loss no wait is longer than `quickMaxMs`. */
  readonly quickForMs: number
  readonly quickMaxMs: number
  /** An attempt without an answer is given up after this time: a server that restarts may accept connections and drop them. */
  readonly dialMs: number
  /** Each unanswered attempt doubles that time up to this one, for a server that is slow. The first connection gets all of it. */
  readonly maxDialMs: number
}

/** Up to five minutes after a loss the longest wait and an unanswered attempt take 9 s together. */
export const remotePace: RetryPace = {
  backoff: { min: 250, max: 30_000 },
  quickForMs: 5 * 60_000,
  quickMaxMs: 4_000,
  dialMs: 5_000,
  maxDialMs: 15_000,
}

/** An attempt on the same machine costs little, and there are few runners. */
export const loopbackPace: RetryPace = {
  ...remotePace,
  quickForMs: Number.POSITIVE_INFINITY,
  quickMaxMs: 1_000,
}

export const paceFor = (url: string): RetryPace =>
  isLoopback(new URL(url).hostname) ? loopbackPace : remotePace

/** The range of the wait before the next attempt, `sinceLossMs` after the loss. */
export const retryRange = (pace: RetryPace, sinceLossMs: number): BackoffRange =>
  sinceLossMs < pace.quickForMs ? { ...pace.backoff, max: pace.quickMaxMs } : pace.backoff

/** How long an attempt after a loss may take when `unanswered` attempts in a row got no answer. */
export const dialLimitMs = (pace: RetryPace, unanswered: number): number =>
  Math.min(pace.maxDialMs, pace.dialMs * 2 ** Math.min(unanswered, 30))
