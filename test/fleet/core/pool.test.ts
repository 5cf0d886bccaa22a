/** What the warm pool starts, keeps and ends. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { type Life, newLife } from "../../../src/fleet/core/life.ts"
import {
  isReady,
  pauseAfter,
  planPool,
  type PoolEntry,
  poolKeyOf,
} from "../../../src/fleet/core/pool.ts"
import { digestOf } from "../../../src/lib/digest.ts"

const ready: Life = { ...newLife, wanted: "running", phase: "running", ref: "r", generation: 1 }
const states: Readonly<Record<string, Life>> = {
  ready,
  recorded: newLife,
  booting: { ...ready, phase: "booting" },
  busy: { ...ready, busy: true },
  failed: { ...newLife, wanted: "running", failed: true },
  ending: { ...ready, wanted: "ended" },
  ended: { ...newLife, wanted: "ended", phase: "ended" },
  expiring: { ...ready, expiresAt: 1000 },
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

describe("which sandbox fits", () => {
  test("only a running sandbox without a call under way can be claimed", () => {
    const names = Object.keys(states).filter((name) => isReady(states[name] ?? newLife))
    expect(names).toEqual(["ready", "expiring"])
    const pending = { number: 1, call: { do: "probe", ref: "r" }, since: 0, dirty: false } as const
    expect(isReady({ ...ready, pending })).toBe(false)
    expect(isReady({ ...ready, doubt: true })).toBe(false)
    expect(isReady({ ...ready, replace: true })).toBe(false)
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
