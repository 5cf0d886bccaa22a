/** Effects of the shared store: retried with backoff, in order within a lane, and given up visibly. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import {
  afterFailure,
  createEffects,
  type Deliveries,
  MAX_ATTEMPTS,
} from "../../../src/hub/shared-store/effects.ts"
import { createSharedTables } from "../../../src/hub/shared-store/schema.ts"
import { createManualClock } from "../../kit/clock.ts"

const HOUR_MS = 3_600_000

const setUp = (fails: (id: string) => unknown) => {
  const sql = openBunSql(":memory:")
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
  const deliveries: Deliveries = {
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
    deliveries,
    changed: () => {},
    givenUp: () => {},
    report: (event) => void reports.push(event),
  })
  /** Advances the clock to each time that the alarm is set to, as a host does. */
  const runAlarms = async () => {
    for (let turns = 0; turns < 100; turns += 1) {
      await effects.deliver()
      const next = effects.nextAlarm()
      if (next === undefined) return
      clock.advance(next - clock.now())
    }
    throw new Error("the effects do not end")
  }
  return { sql, clock, effects, attempts, delivered, notes, reports, runAlarms }
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
    expect(reports.filter((event) => event === "hub.effect-given-up")).toHaveLength(1)
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
    const { effects, clock, attempts } = setUp(() =>
      Object.assign(new Error("too many requests"), { retryAfterMs: 90_000 }),
    )
    effects.add("e1", "s1", prompt)
    await effects.deliver()
    clock.advance(89_999)
    await effects.deliver()
    expect(attempts).toHaveLength(1)
    clock.advance(1)
    await effects.deliver()
    expect(attempts).toHaveLength(2)
  })

  test("a failed effect holds back later ones of its lane and not those of another lane", async () => {
    let isDown = true
    const { effects, delivered, runAlarms } = setUp((id) =>
      isDown && id === "a1" ? new Error("down") : undefined,
    )
    effects.add("a1", "s1", prompt)
    effects.add("a2", "s1", prompt)
    effects.add("b1", "s2", prompt)
    await effects.deliver()
    expect(delivered).toEqual(["b1"])
    isDown = false
    await runAlarms()
    expect(delivered).toEqual(["b1", "a1", "a2"])
  })

  test("two deliveries at the same time deliver an effect once", async () => {
    const { effects, attempts } = setUp(() => undefined)
    effects.add("e1", "s1", prompt)
    await Promise.all([effects.deliver(), effects.deliver()])
    expect(attempts).toEqual(["e1"])
  })

  test("a stored effect that cannot be read is given up and does not stop the others", async () => {
    const { sql, effects, delivered, reports } = setUp(() => undefined)
    sql.run("INSERT INTO effects (id, session, effect, lane) VALUES ('bad', 's1', '{', 's1')")
    effects.add("e1", "s1", prompt)
    await effects.deliver()
    expect(delivered).toEqual(["e1"])
    expect(reports).toEqual(["hub.effect-given-up"])
  })

  test("a table of an older version gets the new columns and keeps its rows", async () => {
    const sql = openBunSql(":memory:")
    sql.run(
      "CREATE TABLE effects (id TEXT PRIMARY KEY, session TEXT NOT NULL, effect TEXT NOT NULL)",
    )
    sql.run("INSERT INTO effects VALUES ('old', 's1', '{}')")
    createSharedTables(sql)
    createSharedTables(sql)
    expect(sql.all("SELECT id, lane, attempts, due_at FROM effects")).toEqual([
      { id: "old", lane: "", attempts: 0, due_at: 0 },
    ])
  })

  test("any number of failures ends, and every retry is later than the failure", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.nat(),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        fc.option(fc.nat(1_000_000), { nil: undefined }),
        (attempts, now, random, retryAfterMs) => {
          const next = afterFailure(attempts, { retryAfterMs }, now, random)
          if (attempts >= MAX_ATTEMPTS) return next === undefined
          return next !== undefined && next > now && next >= now + (retryAfterMs ?? 0)
        },
      ),
    )
  })
})
