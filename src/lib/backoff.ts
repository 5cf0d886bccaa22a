/** The delay before a retry: doubles from `min` to `max`, with jitter so that many clients do not retry at the same time. */

export interface BackoffRange {
  readonly min: number
  readonly max: number
}

/**
 * `attempt` counts from 0; `random` is in [0, 1). The result is between half of the doubled delay and all of it, so it is
 * never zero and never above `max`.
 */
export const backoffMs = (attempt: number, range: BackoffRange, random: number): number => {
  const full = doubledMs(attempt, range)
  return Math.round(full / 2 + (full / 2) * random)
}

/** The same without jitter, for one that retries alone. */
export const doubledMs = (attempt: number, { min, max }: BackoffRange): number =>
  Math.min(max, min * 2 ** Math.min(attempt, 30))
