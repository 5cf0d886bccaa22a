/** Whether a touch was a swipe. Pure. */

export interface Point {
  readonly x: number
  readonly y: number
}

const LEAST = 64

export const swipeOf = (from: Point, to: Point): "left" | "right" | undefined => {
  const [x, y] = [to.x - from.x, to.y - from.y]
  if (Math.abs(x) < LEAST || Math.abs(x) < 2 * Math.abs(y)) return undefined
  return x < 0 ? "left" : "right"
}
