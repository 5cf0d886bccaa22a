import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { backoffMs } from "../../src/lib/backoff.ts"

const range = { min: 1000, max: 30_000 }

test("the delay doubles from the minimum to the maximum", () => {
  const longest = [0, 1, 2, 3, 4, 5, 50].map((attempt) => backoffMs(attempt, range, 0.999999))
  expect(longest).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000])
})

test("jitter keeps the delay between half and all of its value", () => {
  fc.assert(
    fc.property(
      fc.nat(10_000),
      fc.double({ min: 0, max: 0.999999, noNaN: true }),
      (attempt, random) => {
        const ms = backoffMs(attempt, range, random)
        expect(ms).toBeGreaterThanOrEqual(500)
        expect(ms).toBeLessThanOrEqual(30_000)
      },
    ),
  )
})
