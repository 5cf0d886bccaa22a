/** How long to wait before the next try: doubling from `min` to `max`, spread so that a fleet does not return at once. */

export interface BackoffRange {
  readonly min: number
  readonly max: number
}

/**
 * `attempt` counts from 0; `random` is in [0, 1). The result lies between half of the doubled delay and all
 * of it, so it never collapses to zero and never exceeds `max`.
 */
export const backoffMs = (attempt: number, range: BackoffRange, random: number): number => {
  const full = Math.min(range.max, range.min * 2 ** Math.min(attempt, 30))
  return Math.round(full / 2 + (full / 2) * random)
}
