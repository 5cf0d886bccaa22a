import { expect, test } from "bun:test"
import { createTimers } from "../../src/lib/timer.ts"
import { createManualClock } from "../kit/clock.ts"

const start = () => {
  const clock = createManualClock()
  const fired: string[] = []
  const timers = createTimers<"a" | "b">(clock.after)
  const arm = (name: "a" | "b", ms: number, label: string) =>
    timers.arm(name, ms, () => void fired.push(label))
  return { clock, fired, timers, arm }
}

test("a timer fires once, and is not armed after that", () => {
  const { clock, fired, timers, arm } = start()
  arm("a", 10, "a")
  expect(timers.isArmed("a")).toBeTrue()
  clock.advance(100)
  expect(fired).toEqual(["a"])
  expect(timers.isArmed("a")).toBeFalse()
})

test("arming a name again cancels the former timer and leaves other names alone", () => {
  const { clock, fired, arm } = start()
  arm("a", 10, "first")
  arm("b", 10, "other")
  arm("a", 20, "second")
  clock.advance(100)
  expect(fired).toEqual(["other", "second"])
})

test("a timer may arm its own name again while it fires", () => {
  const { clock, timers } = start()
  let ticks = 0
  const tick = () => {
    ticks += 1
    timers.arm("a", 10, tick)
  }
  timers.arm("a", 10, tick)
  clock.advance(35)
  expect(ticks).toBe(3)
  expect(timers.isArmed("a")).toBeTrue()
})

test("a canceled timer does not fire, alone or with all others", () => {
  const { clock, fired, timers, arm } = start()
  arm("a", 10, "a")
  timers.cancel("a")
  arm("b", 10, "b")
  arm("a", 10, "again")
  timers.cancelAll()
  expect(timers.isArmed("b")).toBeFalse()
  clock.advance(100)
  expect(fired).toEqual([])
})
