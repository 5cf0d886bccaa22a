import { expect, test } from "bun:test"
import { sleep, systemClock } from "../../src/lib/clock.ts"
import { createManualClock } from "../kit/clock.ts"

test("sleep ends when its time has come", async () => {
  const clock = createManualClock()
  let awake = false
  const sleeping = sleep(clock, 1000).then(() => (awake = true))
  clock.advance(999)
  await Promise.resolve()
  expect(awake).toBeFalse()
  clock.advance(1)
  await sleeping
  expect(awake).toBeTrue()
})

test("sleep ends at once when it is called off, before or while it lasts", async () => {
  const before = AbortSignal.abort()
  await sleep(systemClock, 60_000, before)
  const meanwhile = new AbortController()
  const sleeping = sleep(systemClock, 60_000, meanwhile.signal)
  meanwhile.abort()
  await sleeping
})

test("a timer that is taken back does not run", () => {
  const clock = createManualClock()
  let runs = 0
  const cancel = clock.after(10, () => (runs += 1))
  cancel()
  clock.advance(100)
  expect(runs).toBe(0)
})
