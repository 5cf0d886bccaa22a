/** Messages of a client in slices of time: order, limits, and the turns of other work. */
import { expect, test } from "bun:test"
import { array, assert, constant, integer, oneof, property } from "fast-check"
import { createPacedMessages, type PacedMessagesOptions } from "../../src/hub/paced-messages.ts"

/** A clock that each handled message advances, and slices that the test runs by hand. */
const setUp = (costMs: number, options: Partial<PacedMessagesOptions> = {}) => {
  const handled: string[] = []
  const slices: (() => void)[] = []
  let time = 0
  let refused = 0
  const messages = createPacedMessages({
    handle: (text) => {
      time += costMs
      handled.push(text)
    },
    tooMany: () => void (refused += 1),
    now: () => time,
    soon: (run) => void slices.push(run),
    ...options,
  })
  return {
    messages,
    handled,
    refused: () => refused,
    time: () => time,
    runSlice: () => slices.shift()?.(),
    runAll: () => {
      while (slices.length > 0) slices.shift()?.()
    },
  }
}

test("every message is handled once and in order, however the slices fall", () => {
  assert(
    property(
      array(oneof(constant("slice"), constant("message")), { maxLength: 200 }),
      integer({ min: 0, max: 30 }),
      (steps, costMs) => {
        const paced = setUp(costMs)
        let sent = 0
        for (const step of steps)
          if (step === "slice") paced.runSlice()
          else paced.messages.push(String(sent++))
        paced.runAll()
        expect(paced.handled).toEqual(Array.from({ length: sent }, (_, index) => String(index)))
      },
    ),
  )
})

test("a thousand messages of one read take at most one slice before other work has its turn", () => {
  const paced = setUp(1)
  for (let index = 0; index < 1000; index += 1) paced.messages.push("m")
  expect(paced.time()).toBe(20)
  paced.runSlice()
  expect(paced.time()).toBe(40)
  paced.runAll()
  expect(paced.handled).toHaveLength(1000)
})

test("a client that sends faster than the hub handles is disconnected, and nothing more is handled", () => {
  const paced = setUp(1)
  for (let index = 0; index < 30_000; index += 1) paced.messages.push("m")
  expect(paced.refused()).toBe(1)
  const before = paced.handled.length
  paced.runAll()
  expect(paced.handled).toHaveLength(before)
})

test("where the clock stands still while messages are handled, a slice has a number of them", () => {
  const paced = setUp(0, { sliceMessages: 3 })
  for (let index = 0; index < 10; index += 1) paced.messages.push("m")
  expect(paced.handled).toHaveLength(3)
  paced.runSlice()
  expect(paced.handled).toHaveLength(6)
})

test("the end of a connection comes after the messages that wait, and at once when none waits", () => {
  const paced = setUp(30)
  const ends: number[] = []
  for (let index = 0; index < 5; index += 1) paced.messages.push("m")
  paced.messages.end(() => void ends.push(paced.handled.length))
  paced.messages.push("after the end")
  expect(ends).toEqual([])
  paced.runAll()
  expect(ends).toEqual([5])
  const empty = setUp(0)
  empty.messages.end(() => void ends.push(0))
  expect(ends).toEqual([5, 0])
})
