/** Stops creates at a provider that refuses them, so that many waiting sessions do not send useless requests. Pure. */

export interface Breaker {
  /** Times of the refusals in the last five minutes. */
  readonly refusals: readonly number[]
  readonly openUntil: number | undefined
}

export const closedBreaker: Breaker = { refusals: [], openUntil: undefined }

const REFUSALS = 5
const WINDOW_MS = 5 * 60_000
const OPEN_MS = 60_000

export const afterAnswer = (breaker: Breaker, refused: boolean, at: number): Breaker => {
  if (!refused) return closedBreaker
  const refusals = [...breaker.refusals.filter((time) => time > at - WINDOW_MS), at]
  return refusals.length >= REFUSALS
    ? { refusals, openUntil: at + OPEN_MS }
    : { refusals, openUntil: undefined }
}

/** How long creates have to wait; 0 when one may be made. */
export const blockedFor = ({ openUntil }: Breaker, at: number): number =>
  openUntil === undefined ? 0 : Math.max(0, openUntil - at)

/** A create is made now. After refusals it is a trial: the others wait for its answer, or for another minute. */
export const afterCreate = (breaker: Breaker, at: number): Breaker =>
  breaker.openUntil === undefined ? breaker : { ...breaker, openUntil: at + OPEN_MS }
