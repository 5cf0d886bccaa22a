/** Effects of the shared store: retried with backoff, in order within a lane, and given up visibly. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import { afterFailure } from "../../../src/hub/session/deliveries.ts"
import {
  createEffects,
  EFFECT_LIMITS,
  type EffectSenders,
} from "../../../src/hub/shared-store/effects.ts"
import { createSharedTables } from "../../../src/hub/shared-store/schema.ts"
import { createManualClock } from "../../kit/clock.ts"

const MAX_ATTEMPTS = EFFECT_LIMITS.maxAttempts
const HOUR_MS = 3_600_000

const setUp = (fails: (id: string) => unknown, sql = openBunSql(":memory:")) => {
  createSharedTables(sql)
  const clock = createManualClock(1_000_000)
  const attempts: string[] = []
  const delivered: string[] = []
  const notes: string[] = []
  const reports: string[] = []
  const deliver = async (_session: string, id: string) => {
    attempts.push(id)
    const error = fails(id)
    await Promise.resolve()
    if (error !== undefined) throw error
    delivered.push(id)
  }
  const senders: EffectSenders = {
    order: deliver,
    cancel: deliver,
    prompt: deliver,
    notify: deliver,
    git: deliver,
    note: (_session, _id, { content }) => void notes.push(content),
  }
  const effects = createEffects({
    sql,
    now: clock.now,
    senders,
    commit: (work) => sql.transaction(work),
    orderFailed: () => {},
    report: (event) => void reports.push(event),
  })
  const send = () => {
    effects.wake()
    return effects.send()
  }
  /** Advances the clock to each time that the alarm is set to, as a host does. */
  const runAlarms = async () => {
    for (let turns = 0; turns < 100; turns += 1) {
      await send()
      const next = effects.nextAlarm()
      if (next === undefined) return
      clock.advance(next - clock.now())
    }
    throw new Error("the effects do not end")
  }
  return { sql, clock, effects, send, attempts, delivered, notes, reports, runAlarms }
}

const prompt = { do: "prompt", content: "go" } as const

describe("an effect that fails", () => {
  test("an effect that fails twice is delivered by the third attempt under the same id", async () => {
    let left = 2
    const { effects, attempts, delivered, notes, runAlarms } = setUp(() => {
      left -= 1
      return left >= 0 ? new Error("unreachable") : undefined
    })
    effects.add("e1", "s1", prompt)
    await runAlarms()
    expect(attempts).toEqual(["e1", "e1", "e1"])
    expect(delivered).toEqual(["e1"])
    expect(notes).toEqual([])
  })

  test("an effect that always fails ends after a bounded number of attempts with one note and one log line", async () => {
    const { effects, attempts, notes, reports, runAlarms, clock } = setUp(
      () => new Error("the service is down"),
    )
    effects.add("e1", "s1", prompt)
    await runAlarms()
    expect(attempts).toHaveLength(MAX_ATTEMPTS)
    expect(notes).toEqual([
      "a prompt of a trigger or a session failed and is not tried again: the service is down",
    ])
    expect(reports.filter((event) => event === "hub.delivery-given-up")).toHaveLength(1)
    expect(clock.now() - 1_000_000).toBeLessThan(2 * HOUR_MS)
  })

  test("a final failure is not retried", async () => {
    const final = Object.assign(new Error("the session has ended"), { retryable: false })
    const { effects, attempts, notes, runAlarms } = setUp(() => final)
    effects.add("e1", "s1", prompt)
    await runAlarms()
    expect(attempts).toEqual(["e1"])
    expect(notes).toHaveLength(1)
  })

  test("an effect waits at least as long as its error asks for", async () => {
    const { effects, send, clock, attempts } = setUp(() =>
      Object.assign(new Error("too many requests"), { retryAfterMs: 90_000 }),
    )
    effects.add("e1", "s1", prompt)
    await send()
    clock.advance(89_999)
    await send()
    expect(attempts).toHaveLength(1)
    clock.advance(1)
    await send()
    expect(attempts).toHaveLength(2)
  })

  test("a failed effect holds back later ones of its lane and not those of another lane", async () => {
    let isDown = true
    const { effects, send, delivered, runAlarms } = setUp((id) =>
      isDown && id === "a1" ? new Error("down") : undefined,
    )
    effects.add("a1", "s1", prompt)
    effects.add("a2", "s1", prompt)
    effects.add("b1", "s2", prompt)
    await send()
    expect(delivered).toEqual(["b1"])
    isDown = false
    await runAlarms()
    expect(delivered).toEqual(["b1", "a1", "a2"])
  })

  test("two deliveries at the same time deliver an effect once", async () => {
    const { effects, send, attempts } = setUp(() => undefined)
    effects.add("e1", "s1", prompt)
    await Promise.all([send(), send()])
    expect(attempts).toEqual(["e1"])
  })

  test("a stored effect that cannot be read is given up with a note and does not stop the others", async () => {
    const { sql, effects, send, delivered, reports, notes } = setUp(() => undefined)
    sql.run(
      "INSERT INTO deliveries (id, kind, lane, payload, due_at) VALUES ('bad', 'prompt', 's1', '{', 0)",
    )
    effects.add("e1", "s1", prompt)
    await send()
    expect(delivered).toEqual(["e1"])
    expect(reports).toEqual(["hub.delivery-given-up"])
    expect(notes).toEqual(["a stored effect failed and is not tried again: it cannot be read"])
  })

  test("effects of an older version are delivered after the ones before them, and unreadable ones are given up", async () => {
    const old = openBunSql(":memory:")
    old.run(
      "CREATE TABLE effects (id TEXT PRIMARY KEY, session TEXT NOT NULL, effect TEXT NOT NULL)",
    )
    old.run("INSERT INTO effects VALUES ('e1', 's1', ?)", JSON.stringify(prompt))
    old.run("INSERT INTO effects VALUES ('bad', 's1', '{')")
    old.run("INSERT INTO effects VALUES ('odd', 's1', '{}')")
    old.run("INSERT INTO effects VALUES ('e2', 's1', ?)", JSON.stringify(prompt))
    createSharedTables(old)
    createSharedTables(old)
    expect(old.all("SELECT name FROM sqlite_master WHERE name = 'effects'")).toEqual([])
    const { effects, delivered, reports, runAlarms } = setUp(() => undefined, old)
    effects.add("e3", "s1", prompt)
    await runAlarms()
    expect(delivered).toEqual(["e1", "e2", "e3"])
    expect(reports).toEqual(["hub.delivery-given-up", "hub.delivery-given-up"])
  })

  test("any number of failures ends, and every retry is later than the failure", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.nat(),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        fc.option(fc.nat(1_000_000), { nil: undefined }),
        (attempts, now, random, retryAfterMs) => {
          const error = { retryAfterMs }
          const next = afterFailure(EFFECT_LIMITS, { attempts, error, now, random })
          if (attempts >= MAX_ATTEMPTS) return next === undefined
          return next !== undefined && next > now && next >= now + (retryAfterMs ?? 0)
        },
      ),
    )
  })
})
