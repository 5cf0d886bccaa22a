import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  firstDial,
  isFinal,
  type LinkEffect,
  type LinkEvent,
  linkPolicy,
  type LinkState,
  stepLink,
} from "../../../src/runner/link/link-state.ts"
import { remotePace } from "../../../src/runner/link/retry-pace.ts"

const policy = linkPolicy(remotePace)

/** Applies the events in order; returns the last state and all effects. */
const run = (events: readonly LinkEvent[]): { state: LinkState; effects: LinkEffect[] } => {
  let [state] = firstDial(policy)
  const effects: LinkEffect[] = []
  for (const event of events) {
    const [next, made] = stepLink(state, event, policy, 0.5)
    state = next
    effects.push(...made)
  }
  return { state, effects }
}

const opened = (at = 0): LinkEvent => ({ type: "opened", at })
const closed = (code: number, reason = "", at = 0): LinkEvent => ({
  type: "closed",
  code,
  reason,
  at,
})
const refused = (status: number): LinkEvent => ({ type: "refused", status, at: 0 })
const failed = (at = 0): LinkEvent => ({ type: "failed", error: "ECONNREFUSED", at })
const unanswered = (at = 0): LinkEvent => ({ type: "unanswered", withinMs: 5000, at })
const retry: LinkEvent = { type: "retry" }
const welcomed: LinkEvent = { type: "welcomed" }
const waits = (effects: readonly LinkEffect[]) =>
  effects.flatMap((effect) => (effect.do === "wait" ? [effect.ms] : []))

describe("a link that cannot connect", () => {
  test("the wait between attempts grows to 4 s, and from five minutes after the loss to half a minute", () => {
    const { effects } = run(Array.from({ length: 8 }, () => [failed(), retry]).flat())
    expect(waits(effects)).toEqual([188, 375, 750, 1500, 3000, 3000, 3000, 3000])
    const minutes = Array.from({ length: 8 }, (_, minute) => [failed(minute * 60_000), retry])
    expect(waits(run(minutes.flat()).effects)).toEqual([
      188, 375, 750, 1500, 3000, 6000, 12_000, 22_500,
    ])
  })

  test("HTTP 503 is retried without limit, since the session agent may become ready", () => {
    const { state } = run(Array.from({ length: 100 }, () => [refused(503), retry]).flat())
    expect(state.name).toBe("dialing")
  })
})

describe("an attempt without an answer", () => {
  const limits = (effects: readonly LinkEffect[]) =>
    effects.flatMap((effect) => (effect.do === "dial" ? [effect.withinMs] : []))

  test("a restarted server that does not answer is dialed again after 5 s, a slow one gets up to 15 s", () => {
    const lost = [opened(), welcomed, closed(1006), retry]
    const { effects } = run([...lost, ...[1, 2, 3].flatMap(() => [unanswered(), retry])])
    expect(limits(effects)).toEqual([5000, 10_000, 15_000, 15_000])
    expect(limits(run([...lost, unanswered(), retry, failed(), retry]).effects).at(-1)).toBe(5000)
    expect(firstDial(policy)[1]).toEqual([{ do: "dial", withinMs: 15_000 }])
  })

  test("a link that is redialed after a restore forgets its failed attempts", () => {
    const away = Array.from({ length: 20 }, (_, minute) => [failed(minute * 60_000), retry]).flat()
    const { effects } = run([...away, failed(1e9), { type: "redial" }, failed(1e9 + 1)])
    expect(waits(effects).slice(-2)).toEqual([22_500, 188])
  })
})

describe.each([401, 403, 404, 410])("a link refused with %i", (status) => {
  test("five refusals in a row end the link with code 3 and name the HTTP status", () => {
    const { state, effects } = run(Array.from({ length: 5 }, () => [refused(status), retry]).flat())
    expect(state.name).toBe("refused")
    expect(effects.at(-1)).toMatchObject({ do: "end", code: 3 })
    expect(JSON.stringify(effects.at(-1))).toContain(`HTTP ${status}`)
  })

  test("four refusals with another event in between do not end the link", () => {
    const four = Array.from({ length: 4 }, () => [refused(status), retry]).flat()
    expect(run([...four, refused(503), retry, ...four]).state.name).toBe("dialing")
    expect(run([...four, failed(), retry, ...four]).state.name).toBe("dialing")
    expect(run([...four, opened(), closed(1006), retry, ...four]).state.name).toBe("dialing")
  })
})

describe("the end of an open connection", () => {
  test("after a stable connection without a welcome the backoff starts from its minimum", () => {
    const { effects } = run([failed(), retry, failed(), retry, opened(0), closed(1006, "", 20_000)])
    expect(waits(effects).at(-1)).toBe(188)
  })

  test("after a connection that ends before its welcome the backoff keeps growing", () => {
    const { effects } = run([failed(), retry, failed(), retry, opened(0), closed(1006, "", 50)])
    expect(waits(effects).at(-1)).toBe(750)
  })

  test("after a welcome the backoff starts from its minimum, however short the connection was", () => {
    const cut = [opened(0), welcomed, closed(1006, "", 1), retry]
    const { effects } = run([failed(), retry, failed(), retry, ...cut, ...cut, ...cut])
    expect(waits(effects).slice(2)).toEqual([188, 188, 188])
  })

  test("five refusals take seconds, so that a session agent can be restarted in between", () => {
    const { effects } = run(Array.from({ length: 5 }, () => [refused(404), retry]).flat())
    expect(waits(effects)).toEqual([750, 1500, 3000, 6000])
  })

  test("a runner that was replaced by another one ends with code 0", () => {
    const { state, effects } = run([opened(), closed(1000, "Replaced by new runner connection")])
    expect(state.name).toBe("replaced")
    expect(effects.at(-1)).toMatchObject({ do: "end", code: 0 })
  })

  test.each(["Session terminated", "Session hibernating"])(
    "the close reason %j stops the link without a reconnect",
    (reason) => {
      const { state, effects } = run([opened(), closed(1000, reason)])
      expect(state.name).toBe("stopped")
      expect(effects.at(-1)).toMatchObject({ do: "end", code: 0, why: reason })
    },
  )

  test("close code 1000 without a final reason leads to a reconnect", () => {
    expect(run([opened(), closed(1000, "Session refreshing")]).state.name).toBe("waiting")
  })
})

test("in any order of events the link dials once for each wait, and a final state stays final", () => {
  const event = fc.oneof(
    fc.nat(100_000).map(opened),
    fc.record({
      type: fc.constant("closed" as const),
      code: fc.constantFrom(1000, 1001, 1006, 1011),
      reason: fc.constantFrom("", "Session terminated", "Replaced by new runner connection", "x"),
      at: fc.nat(100_000),
    }),
    fc.constantFrom(200, 401, 403, 404, 410, 500, 503).map(refused),
    fc.nat(100_000).map(failed),
    fc.nat(100_000).map(unanswered),
    fc.constantFrom<LinkEvent>(retry, welcomed, { type: "redial" }),
    fc.constant<LinkEvent>({ type: "stop" }),
  )
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60, size: "max" }), (events) => {
      let [state, first] = firstDial(policy)
      let dials = first.length
      let timers = 0
      let ends = 0
      for (const linkEvent of events) {
        const before = state
        const [next, effects] = stepLink(state, linkEvent, policy, Math.random())
        if (isFinal(before)) {
          expect(next).toBe(before)
          expect(effects).toEqual([])
        }
        for (const effect of effects) {
          if (effect.do === "dial") dials += 1
          if (effect.do === "wait") {
            timers += 1
            expect(effect.ms).toBeGreaterThanOrEqual(125)
            expect(effect.ms).toBeLessThanOrEqual(30_000)
          }
          if (effect.do === "end") ends += 1
        }
        expect(dials).toBeLessThanOrEqual(timers + 1)
        if (!isFinal(next)) expect(next.name === "waiting").toBe(timers === dials)
        if (isFinal(next) && !isFinal(before) && linkEvent.type === "stop") ends += 1
        state = next
      }
      expect(ends).toBe(isFinal(state) ? 1 : 0)
    }),
    { numRuns: 10_000 },
  )
})

test("the first retry after a welcomed connection comes within 250 ms, and only failed attempts make it later", () => {
  const cut = fc.constantFrom<readonly LinkEvent[]>(
    [opened(), welcomed, closed(1006)],
    [opened(), welcomed, failed()],
  )
  const attempt = fc.oneof(cut, fc.constant<readonly LinkEvent[]>([failed()]))
  fc.assert(
    fc.property(fc.array(attempt, { minLength: 1, maxLength: 40 }), fc.nat(999), (all, random) => {
      let [state] = firstDial(policy)
      let retries = 0
      for (const events of all) {
        if (events.includes(welcomed)) retries = 0
        const effects: LinkEffect[] = []
        for (const event of [...events, retry]) {
          const [next, made] = stepLink(state, event, policy, random / 1000)
          state = next
          effects.push(...made)
        }
        const longest = Math.min(remotePace.quickMaxMs, 250 * 2 ** retries)
        retries += 1
        expect(waits(effects)).toHaveLength(1)
        expect(waits(effects)[0]).toBeLessThanOrEqual(longest)
        expect(waits(effects)[0]).toBeGreaterThanOrEqual(Math.floor(longest / 2))
        expect(state.name).toBe("dialing")
      }
    }),
  )
})
