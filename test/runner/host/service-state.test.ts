/** The state machine of a service. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  defaultServicePolicy as policy,
  idleService,
  type ServiceEvent,
  type ServiceState,
  stepService,
} from "../../../src/runner/host/service-state.ts"

const run = (events: readonly ServiceEvent[], from: ServiceState = idleService) => {
  let state = from
  const effects: string[] = []
  for (const event of events) {
    const [next, done] = stepService(state, event, policy, 0.5)
    state = next
    effects.push(...done.map((effect) => effect.do))
  }
  return { state, effects }
}

const start: ServiceEvent = { type: "start", at: 0 }
const exited = (at: number): ServiceEvent => ({ type: "exited", at, why: "killed by SIGKILL" })
const rested = (at: number): ServiceEvent => ({ type: "rested", at })

test("a service that listens after its start is ready", () => {
  const { state, effects } = run([start, { type: "answers" }])
  expect(state.phase).toBe("ready")
  expect(effects).toEqual(["spawn"])
})

test("a service that is not installed is off and is not started again", () => {
  const { state, effects } = run([start, { type: "missing", program: "ttyd" }, rested(5)])
  expect(state).toEqual({ phase: "off", why: "ttyd is not installed" })
  expect(effects).toEqual(["spawn"])
})

test("a crash is followed by a backoff and a restart", () => {
  const { state, effects } = run([start, { type: "answers" }, exited(10), rested(500)])
  expect(state).toMatchObject({ phase: "starting", tries: { failures: 1, restarts: 1 } })
  expect(effects).toEqual(["spawn", "rest", "spawn"])
})

test("the backoff grows with each crash until the service has failed", () => {
  let state: ServiceState = run([start]).state
  const rests: number[] = []
  for (let time = 1; state.phase !== "failed"; time += 1) {
    const [next, effects] = stepService(state, exited(time), policy, 1)
    for (const effect of effects) if (effect.do === "rest") rests.push(effect.ms)
    state = next.phase === "resting" ? stepService(next, rested(time), policy, 1)[0] : next
  }
  expect(rests).toEqual([250, 500, 1000, 2000, 4000, 8000, 16_000])
  expect(state).toMatchObject({ why: "failed 8 times in a row: killed by SIGKILL" })
})

test("a crash after a steady period counts as the first", () => {
  const crashed = run([start, exited(1), rested(2), exited(3), rested(4)])
  const { state } = run([{ type: "answers" }, exited(4 + policy.steadyMs)], crashed.state)
  expect(state).toMatchObject({ phase: "resting", tries: { failures: 1 } })
})

test("a service that never listens is ended and counts as crashed", () => {
  const { state, effects } = run([start, { type: "late" }, exited(30_000)])
  expect(effects).toEqual(["spawn", "end", "rest"])
  expect(state.phase).toBe("resting")
})

test("a service that is ready is not ended by a late timeout", () => {
  expect(run([start, { type: "answers" }, { type: "late" }]).effects).toEqual(["spawn"])
})

describe("a stopped service", () => {
  test("the exit of a stopped service starts nothing", () => {
    const { state, effects } = run([start, { type: "stop" }, exited(5), rested(6)])
    expect(state.phase).toBe("stopped")
    expect(effects).toEqual(["spawn", "end"])
  })

  test("a stopped service can be started again", () => {
    expect(run([start, { type: "stop" }, { type: "start", at: 9 }]).effects.at(-1)).toBe("spawn")
  })
})

test("for any sequence of events, a spawn follows only a start or a backoff and never a failure", () => {
  const event = fc.oneof(
    fc.constant<ServiceEvent>({ type: "answers" }),
    fc.constant<ServiceEvent>({ type: "late" }),
    fc.nat(100_000).map(exited),
    fc.nat(100_000).map(rested),
    fc.nat(100_000).map((at): ServiceEvent => ({ type: "start", at })),
    fc.constant<ServiceEvent>({ type: "stop" }),
  )
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      let state: ServiceState = idleService
      for (const one of events) {
        const [next, effects] = stepService(state, one, policy, 0.5)
        for (const effect of effects) {
          if (effect.do === "spawn") {
            expect(["start", "rested"]).toContain(one.type)
            expect(state.phase).not.toBe("failed")
          }
          if (effect.do === "rest") expect(effect.ms).toBeLessThanOrEqual(policy.backoff.max)
        }
        state = next
      }
    }),
  )
})
