/** How soon runners are back after their session agent, and how many of them dial at the same time. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  firstDial,
  type LinkEffect,
  type LinkEvent,
  linkPolicy,
  stepLink,
} from "../../../src/runner/link/link-state.ts"
import {
  loopbackPace,
  paceFor,
  remotePace,
  type RetryPace,
} from "../../../src/runner/link/retry-pace.ts"

interface Outage {
  readonly pace: RetryPace
  /** The session agent is away from 0 to this time. */
  readonly awayMs: number
  /** From `awayMs - hangingMs` it accepts connections and does not answer them. */
  readonly hangingMs: number
  readonly random: () => number
}

/** The times of all attempts of one runner that is connected until 0; the last attempt reaches the session agent. */
const attemptsOf = ({ pace, awayMs, hangingMs, random }: Outage): readonly number[] => {
  const policy = linkPolicy(pace)
  const attempts: number[] = []
  let [state] = firstDial(policy)
  let effects: readonly LinkEffect[] = []
  const step = (event: LinkEvent) => {
    ;[state, effects] = stepLink(state, event, policy, random())
  }
  step({ type: "opened", at: -1000 })
  step({ type: "welcomed" })
  step({ type: "closed", code: 1006, reason: "", at: 0 })
  for (let now = 0; ;) {
    const [wait] = effects
    if (wait?.do !== "wait") throw new Error(`no wait in the state ${state.name}`)
    now += wait.ms
    attempts.push(now)
    step({ type: "retry" })
    const [dial] = effects
    if (dial?.do !== "dial") throw new Error(`no attempt in the state ${state.name}`)
    if (now >= awayMs) return attempts
    if (now < awayMs - hangingMs) {
      step({ type: "failed", error: "ECONNREFUSED", at: now })
    } else {
      now += dial.withinMs
      step({ type: "unanswered", withinMs: dial.withinMs, at: now })
    }
  }
}

const jitter = fc.infiniteStream(fc.double({ min: 0, max: 0.999999, noNaN: true }))
const randomOf = (stream: Iterator<number>) => () => Number(stream.next().value)

test("on the same machine a runner dials within a second after its session agent is back, however long it was away", () => {
  fc.assert(
    fc.property(fc.nat(2 * 3_600_000), jitter, (awayMs, stream) => {
      const all = attemptsOf({ pace: loopbackPace, awayMs, hangingMs: 0, random: randomOf(stream) })
      expect((all.at(-1) ?? 0) - awayMs).toBeLessThanOrEqual(1000)
    }),
    { numRuns: 50 },
  )
})

test("a runner elsewhere dials within 4 s after an absence of up to five minutes, within 30 s after a longer one", () => {
  fc.assert(
    fc.property(fc.nat(3_600_000), jitter, (awayMs, stream) => {
      const all = attemptsOf({ pace: remotePace, awayMs, hangingMs: 0, random: randomOf(stream) })
      const limit = awayMs < remotePace.quickForMs ? 4000 : 30_000
      expect((all.at(-1) ?? 0) - awayMs).toBeLessThanOrEqual(limit)
    }),
    { numRuns: 200 },
  )
})

test("a session agent that accepts connections for up to 4 s before it answers them is reached within 9 s", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 5000, max: 200_000 }),
      fc.nat(4000),
      jitter,
      (awayMs, hangingMs, stream) => {
        const all = attemptsOf({ pace: remotePace, awayMs, hangingMs, random: randomOf(stream) })
        expect((all.at(-1) ?? 0) - awayMs).toBeLessThanOrEqual(9000)
      },
    ),
    { numRuns: 300 },
  )
})

test("the attempts of a thousand runners that lose their session agent together are spread evenly", () => {
  fc.assert(
    fc.property(fc.integer({ min: 20_000, max: 60_000 }), fc.nat(), (awayMs, seed) => {
      const random = seeded(seed)
      const runners = Array.from({ length: 1000 }, () =>
        attemptsOf({ pace: remotePace, awayMs, hangingMs: 0, random }),
      )
      const perTenth = new Map<number, number>()
      for (const at of runners.flat()) {
        const tenth = Math.floor(at / 100)
        perTenth.set(tenth, (perTenth.get(tenth) ?? 0) + 1)
      }
      // With waits of 2 to 4 s the mean is 33 attempts in a tenth of a second.
      const afterTwentySeconds = [...perTenth].filter(([tenth]) => tenth >= 200)
      expect(Math.max(...afterTwentySeconds.map(([, count]) => count))).toBeLessThan(100)
    }),
    { numRuns: 10 },
  )
})

/** Repeatable random numbers (mulberry32). */
const seeded = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

test("the address of the session agent decides the pace", () => {
  for (const host of ["127.0.0.1:8787", "localhost", "[::1]:80"]) {
    expect(paceFor(`ws://${host}/sessions/s1/ws`)).toBe(loopbackPace)
  }
  for (const host of ["hub.example.com", "10.0.0.7", "127.0.0.1.example.com"]) {
    expect(paceFor(`wss://${host}/sessions/s1/ws`)).toBe(remotePace)
  }
})
