/** The pure parts of a terminal: the kept output, who gets how much of it, and the modes that programs switch on. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { createOutputRing } from "../../../src/runner/sandbox/output-ring.ts"
import {
  emptyFlow,
  type FlowEvent,
  type FlowState,
  RING_BYTES,
  stepFlow,
} from "../../../src/runner/sandbox/terminal-flow-state.ts"
import {
  endOfReports,
  forgetBefore,
  modesBefore,
  newModes,
  readModes,
} from "../../../src/runner/sandbox/terminal-modes-state.ts"

test("the ring keeps exactly the last bytes of a stream, cut anywhere", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 40 }),
      fc.array(fc.uint8Array({ maxLength: 90 }), { maxLength: 12 }),
      (size, pieces) => {
        const ring = createOutputRing(size)
        for (const piece of pieces) ring.add(piece)
        const all = Buffer.concat(pieces)
        expect(ring.end()).toBe(all.length)
        expect(ring.start()).toBe(Math.max(0, all.length - size))
        const kept = Buffer.from(ring.read(ring.start(), ring.end()))
        expect(kept.equals(all.subarray(ring.start()))).toBe(true)
      },
    ),
  )
})

test("the ring grows with its content up to its size", () => {
  const ring = createOutputRing(1024 * 1024)
  const line = Buffer.from("0123456789".repeat(10_000))
  for (let count = 0; count < 30; count += 1) ring.add(line)
  expect(ring.start()).toBe(3_000_000 - 1024 * 1024)
  const tail = Buffer.from(ring.read(ring.end() - 20, ring.end())).toString()
  expect(tail).toBe("01234567890123456789")
})

const run = (events: readonly FlowEvent[]) => {
  let state: FlowState = emptyFlow
  const effects = events.flatMap((event) => {
    const [next, done] = stepFlow(state, event)
    state = next
    return done
  })
  return { state, effects }
}
const viewer = "a"

describe("flow", () => {
  test("a viewer that keeps up gets every byte in order, and nothing is stopped", () => {
    const { effects } = run([
      { type: "joined", viewer, now: 0 },
      { type: "output", bytes: 10, now: 1 },
      { type: "output", bytes: 5, now: 2 },
    ])
    expect(effects).toEqual([
      { do: "send", viewer, from: 0, to: 10 },
      { do: "send", viewer, from: 10, to: 15 },
    ])
  })

  test("a slow viewer stops the program, and it continues when the viewer has caught up", () => {
    const { effects } = run([
      { type: "joined", viewer, now: 0 },
      { type: "blocked", viewer, now: 0 },
      { type: "output", bytes: 300_000, now: 1 },
      { type: "drained", viewer, now: 2 },
    ])
    expect(effects.map((effect) => effect.do)).toEqual(["stop", "send", "resume"])
  })

  test("a viewer that takes nothing for five seconds no longer stops the program, and gets the kept output again", () => {
    const { effects, state } = run([
      { type: "joined", viewer, now: 0 },
      { type: "paused", viewer, now: 0 },
      { type: "output", bytes: 300_000, now: 1 },
      { type: "tick", now: 6000 },
      { type: "output", bytes: 2 * RING_BYTES, now: 6001 },
      { type: "resumed", viewer, now: 7000 },
    ])
    expect(effects.map((effect) => effect.do)).toEqual(["stop", "resume", "replay"])
    expect(state.viewers.get(viewer)?.at).toBe(state.written)
  })

  test("a viewer that leaves while the program is stopped lets it continue", () => {
    const { effects } = run([
      { type: "joined", viewer, now: 0 },
      { type: "blocked", viewer, now: 0 },
      { type: "output", bytes: 300_000, now: 1 },
      { type: "left", viewer, now: 2 },
    ])
    expect(effects.map((effect) => effect.do)).toEqual(["stop", "resume"])
  })

  test("in every order of events each viewer gets a gapless series of bytes or a replay, and only bytes that are kept", () => {
    const id = fc.constantFrom("a", "b", "c")
    const change = fc.oneof(
      fc.record({
        type: fc.constant("output" as const),
        bytes: fc.integer({ min: 0, max: 900_000 }),
      }),
      fc.record({ type: fc.constant("tick" as const) }),
      fc.record({
        type: fc.constantFrom(
          "joined" as const,
          "left" as const,
          "blocked" as const,
          "drained" as const,
          "paused" as const,
          "resumed" as const,
        ),
        viewer: id,
      }),
    )
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        let state: FlowState = emptyFlow
        let stopped = false
        const places = new Map<string, number>()
        for (const [index, one] of changes.entries()) {
          const [next, effects] = stepFlow(state, { ...one, now: index * 700 })
          if (one.type === "joined") places.set(one.viewer, state.written)
          for (const effect of effects) {
            if (!("viewer" in effect)) {
              expect(effect.do === "stop").toBe(!stopped)
              stopped = !stopped
              continue
            }
            if (effect.do === "send") {
              expect(effect.from).toBe(places.get(effect.viewer) ?? -1)
              expect(effect.from).toBeGreaterThanOrEqual(next.written - RING_BYTES)
            }
            places.set(effect.viewer, next.written)
          }
          state = next
          expect(state.stopped).toBe(stopped)
          if (state.viewers.size === 0) expect(stopped).toBe(false)
        }
      }),
    )
  })
})

describe("modes", () => {
  const ESC = "\u001B"

  test("a mode that was switched on before the kept output is sent first, in whichever pieces it arrived", () => {
    const text = `${ESC}[?1049h${ESC}[?1000;1006h${ESC}[?25l${ESC}[?2004h${ESC}[?2004l rest`
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 60, maxLength: 60 }),
        (cuts) => {
          let state = newModes
          let at = 0
          for (const cut of cuts) {
            state = readModes(state, text.slice(at, at + cut), at)
            at += Math.min(cut, text.length - at)
          }
          const kept = forgetBefore(state, text.length)
          expect(modesBefore(kept)).toBe(`${ESC}[?1049h${ESC}[?1000h${ESC}[?1006h${ESC}[?25l`)
          expect(kept.changes).toEqual([])
        },
      ),
    )
  })

  test("a mode within the kept output is not sent twice", () => {
    const state = readModes(newModes, `${ESC}[?1000h`, 0)
    expect(modesBefore(forgetBefore(state, 0))).toBe("")
    expect(modesBefore(forgetBefore(state, 1))).toBe(`${ESC}[?1000h`)
  })

  test("a reset of the terminal switches every mode back", () => {
    const state = readModes(newModes, `${ESC}[?1003h${ESC}[?25l${ESC}c`, 0)
    expect(modesBefore(forgetBefore(state, 100))).toBe("")
    expect(endOfReports(state)).toBe("")
  })

  test("what a killed program has left on is switched off, except what the shell itself uses", () => {
    const state = readModes(newModes, `${ESC}[?1002h${ESC}[?1006h${ESC}[?2004h`, 0)
    expect(endOfReports(state)).toBe(`${ESC}[?1002l${ESC}[?1006l`)
  })
})
