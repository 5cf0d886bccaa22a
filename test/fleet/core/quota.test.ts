/** The limits of an owner's creates and minutes: when one is refused, and when it is worth asking again. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { createRefusal, minutesRefusal } from "../../../src/fleet/core/quota.ts"

const HOUR = 3_600_000
const DAY = 24 * HOUR
const at = 100 * DAY

test("a create is refused exactly if a window is full, and is allowed at the time that the refusal names", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: DAY - 1 }), { maxLength: 12 }),
      fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined }),
      fc.option(fc.integer({ min: 1, max: 10 }), { nil: undefined }),
      (ages, createsPerHour, createsPerDay) => {
        const times = ages.map((age) => at - age)
        const quotas = { createsPerHour, createsPerDay }
        const inHour = ages.filter((age) => age < HOUR).length
        const isFull =
          (createsPerHour !== undefined && inHour >= createsPerHour) ||
          (createsPerDay !== undefined && ages.length >= createsPerDay)
        const refusal = createRefusal(times, quotas, at)
        expect(refusal !== undefined).toBe(isFull)
        if (!refusal) return
        expect(refusal.retryAt).toBeGreaterThan(at)
        expect(createRefusal(times, quotas, refusal.retryAt - 1)).toBeDefined()
        expect(createRefusal(times, quotas, refusal.retryAt)).toBeUndefined()
      },
    ),
  )
})

test("the refusal names the window that is full for longer", () => {
  const times = [at - 10, at - 20, at - 2 * HOUR]
  const both = createRefusal(times, { createsPerHour: 2, createsPerDay: 3 }, at)
  expect(both?.why).toContain("3 sandboxes in the last day")
  expect(createRefusal(times, { createsPerHour: 2 }, at)?.why).toContain(
    "2 sandboxes in the last hour",
  )
})

test("the minutes of a day are refused from the limit to midnight in UTC", () => {
  expect(minutesRefusal(599, 10, at + HOUR)).toBeUndefined()
  expect(minutesRefusal(600, undefined, at + HOUR)).toBeUndefined()
  expect(minutesRefusal(600, 10, at + HOUR)?.retryAt).toBe(at + DAY)
})
