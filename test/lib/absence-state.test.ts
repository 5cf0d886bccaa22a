/** The rule of absence on a fake clock: what counts as time away, and what a suspension leaves of the limit. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  type Absence,
  GRACE_MS,
  isOver,
  JUMP_MS,
  present,
  stillAway,
} from "../../src/lib/absence-state.ts"

const policy = { limitMs: 600_000, everyMs: 5000 }

/** The absence after looks that came so long after one another. */
const after = (pauses: readonly number[], from = present(0)): Absence => {
  let now = from.lookedAt
  return pauses.reduce((absence, pause) => stillAway(absence, (now += pause), policy), from)
}
const looks = (count: number): readonly number[] => Array.from({ length: count }, () => 5000)

test("an absence is over when looks without a result have lasted for the limit, and not before", () => {
  expect(isOver(after(looks(119)), policy)).toBe(false)
  expect(isOver(after(looks(120)), policy)).toBe(true)
})

test("a suspension of hours does not count, and a grace is left after it even if the limit was almost reached", () => {
  const before = after(looks(119))
  const resumed = after([8 * 3_600_000], before)
  expect(resumed.awayMs).toBe(policy.limitMs - GRACE_MS)
  expect(isOver(after(looks(11), resumed), policy)).toBe(false)
  expect(isOver(after(looks(12), resumed), policy)).toBe(true)
})

test("a suspension early in the absence leaves what is left, and gives no time again", () => {
  const before = after(looks(10))
  expect(after([8 * 3_600_000], before).awayMs).toBe(before.awayMs)
})

test("a clock that was set back neither ends an absence nor gives time again", () => {
  const before = after(looks(10))
  expect(after([-3_600_000], before).awayMs).toBe(before.awayMs)
})

test("looks of a busy machine, which come late but not after a suspension, count in full", () => {
  expect(after([JUMP_MS, JUMP_MS]).awayMs).toBe(2 * JUMP_MS)
})

test("an absence is never over before looks have seen the limit, whatever the clock does", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -1e7, max: 1e7 }), { maxLength: 200 }), (pauses) => {
      const seen = pauses
        .filter((pause) => pause >= 0 && pause <= policy.everyMs + JUMP_MS)
        .reduce((sum, pause) => sum + pause, 0)
      expect(after(pauses).awayMs).toBeLessThanOrEqual(seen)
    }),
  )
})
