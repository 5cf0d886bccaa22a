import { expect, test } from "bun:test"
import { sleep, systemClock } from "../../src/lib/clock.ts"
import { createManualClock } from "../kit/clock.ts"

test("sleep resolves after its time", async () => {
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

test("sleep resolves immediately if its signal is aborted before or during it", async () => {
  const before = AbortSignal.abort()
  await sleep(systemClock, 60_000, before)
  const meanwhile = new AbortController()
  const sleeping = sleep(systemClock, 60_000, meanwhile.signal)
  meanwhile.abort()
  await sleeping
})

test("a cancelled timer does not run", () => {
  const clock = createManualClock()
  let runs = 0
  const cancel = clock.after(10, () => (runs += 1))
  cancel()
  clock.advance(100)
  expect(runs).toBe(0)
})
