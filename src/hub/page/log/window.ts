/** Which turns are in the document: those near the view. Two spacers stand for the others. Pure. */

export interface WindowInput {
  readonly ids: readonly string[]
  /** Measured heights, with the space below each turn. */
  readonly heights: ReadonlyMap<string, number>
  readonly scrollTop: number
  readonly viewHeight: number
  /** The height of a turn that has not been measured. */
  readonly estimate?: number
}

export interface WindowRange {
  /** The first turn and the one after the last. */
  readonly from: number
  readonly to: number
  /** Heights of the spacers. */
  readonly above: number
  readonly below: number
}

/** Of a turn that has not been measured, while none has. */
export const ESTIMATE = 420
/** So many turns say how high the others are. */
const ENOUGH = 5
/** An estimate that is nearly right stays, because another one moves all turns that were not measured. */
const NEARLY = 0.2

export const estimateFrom = (heights: ReadonlyMap<string, number>, before: number): number => {
  if (heights.size < ENOUGH) return before
  let sum = 0
  for (const height of heights.values()) sum += height
  const mean = sum / heights.size
  return Math.abs(mean - before) <= NEARLY * before ? before : Math.round(mean)
}

const VIEWS_ABOVE = 1.5
const VIEWS_BELOW = 1

export const heightOf = (
  heights: ReadonlyMap<string, number>,
  id: string,
  estimate = ESTIMATE,
): number => heights.get(id) ?? estimate

export const windowRange = (input: WindowInput): WindowRange => {
  const { ids, heights, scrollTop, viewHeight, estimate } = input
  const top = scrollTop - VIEWS_ABOVE * viewHeight
  const bottom = scrollTop + (1 + VIEWS_BELOW) * viewHeight
  let [from, to, above, below, at] = [ids.length, 0, 0, 0, 0]
  for (const [index, id] of ids.entries()) {
    const end = at + heightOf(heights, id, estimate)
    if (end <= top) above += end - at
    else if (at >= bottom) below += end - at
    else {
      from = Math.min(from, index)
      to = index + 1
    }
    at = end
  }
  // The view is outside of all turns, for example while the document is shorter than it was.
  if (from >= to && ids.length > 0) return lastTurn(input)
  return { from: Math.min(from, to), to, above, below }
}

const lastTurn = ({ ids, heights, estimate }: WindowInput): WindowRange => {
  const from = ids.length - 1
  const above = ids.slice(0, from).reduce((sum, id) => sum + heightOf(heights, id, estimate), 0)
  return { from, to: ids.length, above, below: 0 }
}

export const isSameRange = (a: WindowRange, b: WindowRange): boolean =>
  a.from === b.from && a.to === b.to && a.above === b.above && a.below === b.below

/** The scroll position at which a turn starts. */
export const offsetOf = (
  ids: readonly string[],
  heights: ReadonlyMap<string, number>,
  id: string,
  estimate = ESTIMATE,
): number | undefined => {
  const index = ids.indexOf(id)
  if (index === -1) return undefined
  return ids.slice(0, index).reduce((sum, other) => sum + heightOf(heights, other, estimate), 0)
}
