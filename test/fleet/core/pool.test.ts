/** What the warm pool starts, keeps and ends. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { type Life, newLife } from "../../../src/fleet/core/life.ts"
import {
  isReady,
  isSlow,
  pauseAfter,
  planPool,
  type PoolEntry,
  poolKeyOf,
} from "../../../src/fleet/core/pool.ts"
import { digestOf } from "../../../src/lib/digest.ts"
import { changedLife, lifeWith } from "../kit/life.ts"

const ready = lifeWith({ wanted: "running", phase: "running", ref: "r", generation: 1 })
const states: Readonly<Record<string, Life>> = {
  ready,
  recorded: newLife,
  booting: changedLife(ready, { phase: "booting" }),
  busy: changedLife(ready, { busy: true }),
  failed: lifeWith({ wanted: "running", failed: true }),
  ending: changedLife(ready, { wanted: "ended" }),
  ended: lifeWith({ wanted: "ended", phase: "ended" }),
  expiring: changedLife(ready, { expiresAt: 1000 }),
}
const entry = (id: string, state: string, poolKey = "now", createdAt = 0): PoolEntry => ({
  id,
  poolKey,
  life: states[state] ?? newLife,
  createdAt,
})
const aims = { key: "now", size: 2, at: 500 }

describe("the plan of the pool", () => {
  test("an empty pool is filled two at a time", () => {
    expect(planPool([], { ...aims, size: 5 })).toEqual({ add: 2, start: [], end: [], forget: [] })
    const booting = [entry("a", "booting"), entry("b", "booting")]
    expect(planPool(booting, { ...aims, size: 5 }).add).toBe(0)
    const half = [entry("a", "ready"), entry("b", "booting")]
    expect(planPool(half, { ...aims, size: 5 }).add).toBe(1)
  })

  test("a recorded entry that a crashed replica never started is started, and no other is added for it", () => {
    expect(planPool([entry("a", "recorded"), entry("b", "ready")], aims)).toEqual({
      add: 0,
      start: ["a"],
      end: [],
      forget: [],
    })
  })

  test("sandboxes of an earlier version, failed ones and those that the provider ends soon are replaced", () => {
    const entries = [
      entry("old", "ready", "before"),
      entry("broken", "failed"),
      entry("late", "expiring"),
    ]
    expect(planPool(entries, aims)).toEqual({
      add: 2,
      start: [],
      end: ["old", "broken", "late"],
      forget: [],
    })
  })

  test("a smaller pool keeps the sandboxes that are ready, and ended ones are forgotten", () => {
    const entries = [entry("a", "booting"), entry("b", "ready", "now", 9), entry("c", "ended")]
    expect(planPool(entries, { ...aims, size: 1 })).toEqual({
      add: 0,
      start: [],
      end: ["a"],
      forget: ["c"],
    })
    expect(planPool(entries, { ...aims, size: 0 }).end).toEqual(["a", "b"])
  })

  test("entries that fail together are one failure, those of an earlier version are none, and a sandbox that was made ends the pause", () => {
    const failed = [entry("a", "failed"), entry("b", "failed")]
    const first = pauseAfter(undefined, failed, 0, aims)
    expect(first).toEqual({ times: 1, since: 500, until: 60_500 })
    expect(pauseAfter(first, failed, 400, { ...aims, at: 900 })).toEqual(first)
    expect(planPool(failed, { ...aims, pausedUntil: first?.until }).add).toBe(0)
    expect(pauseAfter(first, failed, 400, { ...aims, at: 60_500 })?.until).toBe(180_500)
    expect(pauseAfter(first, [], 501, { ...aims, at: 900 })).toBeUndefined()
    expect(pauseAfter(undefined, [entry("old", "failed", "before")], 0, aims)).toBeUndefined()
  })

  test("every plan leads to the size of the pool and never ends what it starts or keeps", () => {
    const anyEntry = fc.record({
      id: fc.uuid(),
      state: fc.constantFrom(...Object.keys(states)),
      key: fc.constantFrom("now", "before"),
      createdAt: fc.nat(100),
    })
    fc.assert(
      fc.property(
        fc.uniqueArray(anyEntry, { selector: ({ id }) => id }),
        fc.nat(6),
        (all, size) => {
          const entries = all.map(({ id, state, key, createdAt }) =>
            entry(id, state, key, createdAt),
          )
          const plan = planPool(entries, { ...aims, size })
          const left = entries.filter(
            ({ id, life }) => life.wanted !== "ended" && !plan.end.includes(id),
          )
          expect(left.length + plan.add).toBeLessThanOrEqual(size)
          expect(left.every(({ poolKey }) => poolKey === "now")).toBe(true)
          expect(plan.start.every((id) => left.some((one) => one.id === id))).toBe(true)
          // A plan that adds nothing below the size waits for sandboxes that are being started.
          const waits = left.filter(({ life }) => !isReady(life)).length
          if (left.length + plan.add < size) expect(waits + plan.add).toBeGreaterThanOrEqual(2)
          // A ready sandbox of this version is ended only if enough others are ready.
          const isGood = ({ life, poolKey }: PoolEntry) =>
            poolKey === "now" && isReady(life) && life.expiresAt === undefined
          const lost = entries.filter((one) => isGood(one) && plan.end.includes(one.id)).length
          if (lost > 0) expect(left.filter(isGood)).toHaveLength(size)
        },
      ),
      { numRuns: 2000 },
    )
  })
})

describe("entries that start for long", () => {
  const later = (at: number, size = 3) => ({ ...aims, size, at })

  test("entries that have been started for 15 seconds hold back no others, and are ended when the pool is full", () => {
    const stuck = [entry("a", "booting"), entry("b", "booting")]
    expect(planPool(stuck, later(14_999)).add).toBe(0)
    expect(planPool(stuck, later(15_000))).toEqual({ add: 2, start: [], end: [], forget: [] })
    const next = [entry("c", "ready", "now", 15_000), entry("d", "ready", "now", 15_000)]
    expect(planPool([...stuck, ...next], later(17_000))).toMatchObject({ add: 1, end: [] })
    const full = [...stuck, ...next, entry("e", "ready", "now", 17_000)]
    expect(planPool(full, later(18_000))).toMatchObject({ add: 0, end: ["a", "b"] })
  })

  test("a slow entry that becomes ready takes its place, and one that was started in its place is ended", () => {
    const entries = [entry("a", "ready"), entry("b", "booting", "now", 15_000)]
    expect(planPool(entries, later(16_000, 1))).toMatchObject({ add: 0, end: ["b"] })
  })

  test("a provider at which no sandbox starts gets twice the size of the pool at most, two at a time", () => {
    const entries: PoolEntry[] = []
    for (let at = 0; at < 600_000; at += 500) {
      const { add, end } = planPool(entries, later(at))
      expect(end).toEqual([])
      expect(add).toBeLessThanOrEqual(2)
      for (let number = 0; number < add; number += 1)
        entries.push(entry(`e${entries.length}`, "booting", "now", at))
    }
    expect(entries.map(({ createdAt }) => createdAt)).toEqual([
      0, 0, 15_000, 15_000, 30_000, 30_000,
    ])
  })

  test("an entry that was refused and waits for its next attempt keeps its place", () => {
    const refused = lifeWith({ wanted: "running", lastError: "no capacity", failures: 1 })
    const life: Life = { ...refused, retryAt: 100_000 }
    const waits: PoolEntry = { ...entry("a", "booting"), life }
    expect(planPool([waits], later(99_000, 1)).add).toBe(0)
    const pending = { number: 2, call: { do: "create", generation: 2 }, dirty: false } as const
    const asked = changedLife(refused, { pending: { ...pending, since: 100_000 } })
    const again = { ...waits, life: asked }
    expect(planPool([again], later(114_999, 1)).add).toBe(0)
    // The attempt that is under way now is slow itself.
    expect(planPool([again], later(115_000, 1)).add).toBe(1)
  })

  test("an entry that was ready keeps its place for 15 seconds after its runner has lost its link, and during a call", () => {
    const lost = changedLife(ready, { phase: "booting", touched: true, unlinkedAt: 900_000 })
    const one = { ...entry("a", "ready"), life: lost }
    expect(planPool([one], later(914_999, 1)).add).toBe(0)
    expect(planPool([one], later(915_000, 1)).add).toBe(1)
    const pending = { number: 2, call: { do: "probe", ref: "r" }, dirty: false } as const
    const asked = changedLife(ready, { touched: true, pending: { ...pending, since: 900_000 } })
    expect(planPool([{ ...one, life: asked }], later(901_000, 1)).add).toBe(0)
  })

  test("an entry that was recorded and never started keeps its place: the hub is asked for it again", () => {
    expect(planPool([entry("a", "recorded")], later(900_000, 1))).toMatchObject({
      add: 0,
      start: ["a"],
    })
  })

  test("a pool that is not full always starts an entry or waits for a young one, and the provider is never asked for more than twice its size", () => {
    const anyEntry = fc.record({
      id: fc.uuid(),
      state: fc.constantFrom(...Object.keys(states)),
      key: fc.constantFrom("now", "before"),
      createdAt: fc.constantFrom(0, 4000, 10_000, 20_000),
      wasUsed: fc.boolean(),
      hasError: fc.boolean(),
      unlinkedAt: fc.option(fc.constantFrom(1000, 16_000), { nil: undefined }),
      retryAt: fc.option(fc.constantFrom(3000, 21_000), { nil: undefined }),
    })
    fc.assert(
      fc.property(
        fc.uniqueArray(anyEntry, { selector: ({ id }) => id, maxLength: 20 }),
        fc.nat(6),
        (all, size) => {
          const at = 20_000
          const entries = all.map((one): PoolEntry => {
            const made = entry(one.id, one.state, one.key, one.createdAt)
            const { unlinkedAt, retryAt } = one
            const lastError = one.hasError ? "refused" : undefined
            const more = { touched: one.wasUsed, lastError, unlinkedAt, retryAt }
            return { ...made, life: changedLife(made.life, { expiresAt: undefined, ...more }) }
          })
          const plan = planPool(entries, { key: "now", size, at })
          const left = entries.filter(
            ({ id, life }) => life.wanted !== "ended" && !plan.end.includes(id),
          )
          const readyOnes = left.filter(({ life }) => isReady(life)).length
          const slow = left.filter((one) => isSlow(one, at)).length
          const young = left.length - readyOnes - slow
          expect(left.length + plan.add).toBeLessThanOrEqual(2 * size)
          expect(readyOnes + young + plan.add).toBeLessThanOrEqual(size)
          expect(plan.add).toBeLessThanOrEqual(Math.max(0, 2 - young))
          if (readyOnes === size) expect(slow + young).toBe(0)
          else if (left.length < 2 * size) expect(young + plan.add).toBeGreaterThan(0)
        },
      ),
      { numRuns: 2000 },
    )
  })
})

describe("which sandbox fits", () => {
  test("only a running sandbox without a call under way can be claimed", () => {
    const names = Object.keys(states).filter((name) => isReady(states[name] ?? newLife))
    expect(names).toEqual(["ready", "expiring"])
    const pending = { number: 1, call: { do: "probe", ref: "r" }, since: 0, dirty: false } as const
    expect(isReady({ ...ready, pending })).toBe(false)
    expect(isReady(changedLife(ready, { doubt: true }))).toBe(false)
    expect(isReady(changedLife(ready, { replace: true }))).toBe(false)
  })

  test("another program or another variable needs another sandbox, and the order of variables does not matter", () => {
    const sources = (
      providerKeys: Record<string, string>,
      github: Record<string, string> = {},
    ) => ({ providerKeys, credentials: {}, github })
    const key = poolKeyOf("v1", sources({ A: "1", B: "2" }), digestOf)
    expect(poolKeyOf("v1", sources({ B: "2", A: "1" }), digestOf)).toBe(key)
    expect(poolKeyOf("v2", sources({ A: "1", B: "2" }), digestOf)).not.toBe(key)
    expect(poolKeyOf("v1", sources({ A: "1", B: "3" }), digestOf)).not.toBe(key)
    const own = sources({ A: "1", B: "2" }, { GIT_AUTHOR_NAME: "Alice" })
    expect(poolKeyOf("v1", own, digestOf)).not.toBe(key)
    // A git token reaches the sandbox when it is claimed.
    const withToken = sources({ A: "1", B: "2" }, { GITHUB_TOKEN: "of-alice" })
    expect(poolKeyOf("v1", withToken, digestOf)).toBe(key)
  })
})
