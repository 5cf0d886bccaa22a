/** Which turns are in the document: those near the view. Two spacers stand for the others. Pure. */

export interface WindowInput {
  readonly ids: readonly string[]
  /** Measured heights, with the space below each turn. */
  readonly heights: ReadonlyMap<string, number>
  readonly scrollTop: number
  readonly viewHeight: number
}

export interface WindowRange {
  /** The first turn and the one after the last. */
  readonly from: number
  readonly to: number
  /** Heights of the spacers. */
  readonly above: number
  readonly below: number
}

/** Of a turn that has not been measured. */
export const ESTIMATE = 420

const VIEWS_ABOVE = 1.5
const VIEWS_BELOW = 1

export const heightOf = (heights: ReadonlyMap<string, number>, id: string): number =>
  heights.get(id) ?? ESTIMATE

export const windowRange = (input: WindowInput): WindowRange => {
  const { ids, heights, scrollTop, viewHeight } = input
  const top = scrollTop - VIEWS_ABOVE * viewHeight
  const bottom = scrollTop + (1 + VIEWS_BELOW) * viewHeight
  let [from, to, above, below, at] = [ids.length, 0, 0, 0, 0]
  for (const [index, id] of ids.entries()) {
    const end = at + heightOf(heights, id)
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

const lastTurn = ({ ids, heights }: WindowInput): WindowRange => {
  const from = ids.length - 1
  const above = ids.slice(0, from).reduce((sum, id) => sum + heightOf(heights, id), 0)
  return { from, to: ids.length, above, below: 0 }
}

export const isSameRange = (a: WindowRange, b: WindowRange): boolean =>
  a.from === b.from && a.to === b.to && a.above === b.above && a.below === b.below

/** The scroll position at which a turn starts. */
export const offsetOf = (
  ids: readonly string[],
  heights: ReadonlyMap<string, number>,
  id: string,
): number | undefined => {
  const index = ids.indexOf(id)
  if (index === -1) return undefined
  return ids.slice(0, index).reduce((sum, other) => sum + heightOf(heights, other), 0)
}
