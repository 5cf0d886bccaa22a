/**
 * How much slower this machine computes than the one on which the limits of the attacks were set. A stall is computation, so its
 * limit is an amount of work and not a time.
 */

/** The time of `compute` on that machine, a server with two cores. */
const REFERENCE_MS = 7
const RUNS = 15

/** A fixed amount of the work that parsers do: objects, texts and JSON. */
const compute = (): number => {
  let length = 0
  for (let index = 0; index < 20_000; index += 1) {
    const text = `{"index":${index},"words":["heron","egret","plover"]}`
    length += JSON.stringify(JSON.parse(text)).length
  }
  return length
}

/** At least 1. The shortest of many runs counts: other programs interrupt the others. */
export const measureSlowness = (): number => {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < RUNS; run += 1) {
    const begin = performance.now()
    compute()
    least = Math.min(least, performance.now() - begin)
  }
  return Math.max(1, least / REFERENCE_MS)
}
