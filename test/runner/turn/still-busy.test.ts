/** The end of a turn when OpenCode's idle event comes before its status is idle. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { MAX_RECHECK_MS, RECHECK_MS } from "../../../src/runner/turn/timeouts.ts"
import type { Effect } from "../../../src/runner/turn/turn.ts"
import { assistant, done, events, start, textPart } from "./build.ts"

const answer = { message: done("m1"), parts: [textPart("m1", "p1", "All done.", true)] }

/** The newest pending recheck of a list of effects, in milliseconds. */
const recheckOf = (effects: readonly Effect[]): number | undefined =>
  effects.flatMap((effect) =>
    effect.do === "timer" && effect.name === "recheck" ? [effect.ms] : [],
  )[0]

test("a session that is still busy after its idle event is read again and again until it is idle", () => {
  const turn = start()
  turn.receive(events.message(assistant("m1")), events.message(done("m1")), events.idle())
  const waits = ["end", "recheck", "recheck", "recheck", "recheck"].map((why) =>
    recheckOf(turn.read([answer], why as "end", { type: "busy" })),
  )
  expect(waits).toEqual([1500, 3000, 6000, 12_000, 12_000])
  turn.read([answer], "recheck")
  expect(turn.outcome()).toEqual({ type: "ok" })
})

test("a session that is busy after a gap is read again only if no message is open", () => {
  const turn = start()
  turn.receive(events.message(assistant("m1")))
  turn.dispatch({ type: "stream-gap" })
  const open = { message: assistant("m1"), parts: [] }
  expect(recheckOf(turn.read([open], "stream-gap", { type: "busy" }))).toBeUndefined()
  turn.dispatch({ type: "stream-gap" })
  expect(recheckOf(turn.read([answer], "stream-gap", { type: "busy" }))).toBe(RECHECK_MS)
})

test("however late OpenCode's status becomes idle, the turn ends soon after it or after the last idle event", () => {
  fc.assert(
    fc.property(
      fc.boolean(),
      fc.integer({ min: 0, max: 200_000 }),
      fc.array(fc.integer({ min: 1, max: 30_000 }), { maxLength: 5 }),
      (isOpen, busyMs, furtherIdles) => {
        const turn = start()
        turn.receive(events.message(assistant("m1")))
        if (!isOpen) turn.receive(events.message(done("m1")))
        let now = 0
        let lastIdle = 0
        const idles = furtherIdles.toSorted((one, other) => one - other)
        const before = turn.effects.length
        turn.receive(events.idle())
        let fresh: readonly Effect[] = turn.effects.slice(before)
        let recheckAt: number | undefined
        while (turn.outcome() === undefined) {
          const wait = recheckOf(fresh)
          if (wait !== undefined) recheckAt = now + wait
          const read = fresh.find((effect) => effect.do === "read")
          if (read) {
            const isBusy = now < busyMs
            const stored = isOpen && isBusy ? { message: assistant("m1"), parts: [] } : answer
            fresh = turn.read([stored], read.why, { type: isBusy ? "busy" : "idle" })
            continue
          }
          const idleAt = idles[0] ?? Number.POSITIVE_INFINITY
          if (recheckAt === undefined && idles.length === 0) throw new Error("no further look")
          if (idleAt <= (recheckAt ?? Number.POSITIVE_INFINITY)) {
            now = idleAt
            lastIdle = idleAt
            idles.shift()
            const from = turn.effects.length
            turn.receive(events.idle())
            fresh = turn.effects.slice(from)
            continue
          }
          now = recheckAt ?? now
          recheckAt = undefined
          fresh = turn.dispatch({ type: "timer", name: "recheck" })
        }
        expect(turn.outcome()).toEqual({ type: "ok" })
        // An idle event begins a short wait of its own, also if a look was about to come.
        const limit = Math.max(busyMs + MAX_RECHECK_MS, lastIdle + RECHECK_MS)
        expect(now).toBeLessThanOrEqual(limit)
      },
    ),
  )
})

test("an error that OpenCode stores long after its idle event ends the turn with that error", () => {
  const turn = start()
  turn.receive(events.message(assistant("m1")), events.idle())
  const open = { message: assistant("m1"), parts: [] }
  const waits = Array.from({ length: 4 }, () => recheckOf(turn.read([open], "recheck")))
  expect(waits).toEqual([3000, 6000, 12_000, 12_000])
  expect(turn.outcome()).toBeUndefined()
  turn.read(
    [{ message: done("m1", { error: { name: "APIError", message: "no key" } }), parts: [] }],
    "recheck",
  )
  expect(turn.outcome()).toEqual({ type: "error", error: "no key" })
})

test("a message that stays open although OpenCode is idle ends the turn with an error after five reads", () => {
  const turn = start()
  turn.receive(events.message(assistant("m1")), events.idle())
  const open = { message: assistant("m1"), parts: [] }
  for (let read = 0; read < 5; read += 1) {
    expect(turn.outcome()).toBeUndefined()
    turn.read([open], "recheck")
  }
  expect(turn.outcome()).toEqual({ type: "error", error: "OpenCode was stopped during the turn" })
})
