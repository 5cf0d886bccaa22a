/** Ids that are accepted once. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { createSingleUse } from "../../src/lib/single-use.ts"
import { createManualClock } from "../kit/clock.ts"

const seed = Date.now() % 2 ** 31

test("an id is accepted once", () => {
  const { accept } = createSingleUse(() => 0)
  expect([accept("a", 10), accept("a", 10), accept("b", 10)]).toEqual([true, false, true])
})

test("an id that has expired is refused", () => {
  const { accept } = createSingleUse(() => 10)
  expect(accept("a", 10)).toBeFalse()
})

test("a full memory refuses new ids until old ones expire", () => {
  const clock = createManualClock(0)
  const { accept } = createSingleUse(clock.now, 2)
  expect([accept("a", 10), accept("b", 20), accept("c", 30)]).toEqual([true, true, false])
  clock.advance(10)
  expect([accept("c", 30), accept("b", 20)]).toEqual([true, false])
})

test(`no id is accepted twice, in any order and with any memory size (seed ${seed})`, () => {
  const uses = fc.array(fc.tuple(fc.constantFrom("a", "b", "c", "d"), fc.nat(5)))
  fc.assert(
    fc.property(uses, fc.integer({ min: 1, max: 5 }), (steps, most) => {
      const clock = createManualClock(0)
      const { accept } = createSingleUse(clock.now, most)
      const ends: Record<string, number> = { a: 10, b: 12, c: 14, d: 16 }
      const accepted = steps.flatMap(([id, pause]) => {
        clock.advance(pause)
        return accept(id, ends[id] ?? 0) ? [id] : []
      })
      return new Set(accepted).size === accepted.length
    }),
    { seed },
  )
})
