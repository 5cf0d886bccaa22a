/** Which records of sandboxes follow from the steps of a life. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  changesHistory,
  costOf,
  counted,
  ended,
  isOpen,
  type LifeStep,
  recordsAfter,
  type SandboxRecord,
  secondsAdded,
} from "../../../src/fleet/core/history.ts"
import { type Life, newLife } from "../../../src/fleet/core/life.ts"
import { dueAt, step } from "../../../src/fleet/core/life-state.ts"
import { changedLife, type Flags, lifeWith } from "../kit/life.ts"
import { actions, capabilitySets, live, type Machine } from "./life-world.ts"

const owner = { session: "s", tenant: "user:a", provider: "noop", costPerHour: 1 } as const
const life = lifeWith
const running = (ref: string, generation: number) =>
  life({ wanted: "running", phase: "running", ref, generation })

const apply = (known: readonly SandboxRecord[], changed: readonly SandboxRecord[]) => [
  ...known.filter(
    (one) =>
      !changed.some(({ ref, generation }) => ref === one.ref && generation === one.generation),
  ),
  ...changed,
]

describe("the seconds of a record", () => {
  const record: SandboxRecord = {
    ...owner,
    generation: 1,
    ref: "r",
    createdAt: 1000,
    seconds: 10,
    countedAt: 1000,
  }

  test("the time since the last count is added once", () => {
    expect(counted(record, 61_000)).toMatchObject({ seconds: 70, countedAt: 61_000 })
    expect(counted(counted(record, 61_000), 61_000).seconds).toBe(70)
    expect(counted({ ...record, countedAt: undefined }, 61_000).seconds).toBe(10)
  })

  test("a clock that is set back or forward by more than a quarter of an hour adds nothing", () => {
    expect(counted(record, 500)).toMatchObject({ seconds: 10, countedAt: 500 })
    expect(counted(record, 1000 + 900_000).seconds).toBe(910)
    expect(counted(record, 1000 + 900_001)).toMatchObject({ seconds: 10, countedAt: 901_001 })
  })

  test("an end is never before the beginning", () => {
    expect(ended(record, "gone", 500)).toMatchObject({ endedAt: 1000, whyEnded: "gone" })
  })

  test("the cost is the share of an hour, and absent without a price", () => {
    expect(costOf({ ...record, seconds: 1800, costPerHour: 0.5 })).toBe(0.25)
    expect(costOf({ ...record, costPerHour: undefined })).toBeUndefined()
  })
})

describe("the records after a step", () => {
  const at = 100_000
  const own = { before: life({}), after: running("r1", 1) }
  const first = recordsAfter([], own, owner, at)

  test("a new sandbox has a record with what it was made from", () => {
    const event = {
      type: "answer",
      number: 1,
      call: { do: "create", generation: 1 },
      answer: { is: "ok", value: { ref: "r1", image: "base:b7" } },
      at,
    } as const
    expect(recordsAfter([], { ...own, event }, owner, at)).toEqual([
      {
        ...owner,
        generation: 1,
        ref: "r1",
        image: "base:b7",
        createdAt: at,
        seconds: 0,
        countedAt: at,
      },
    ])
  })

  test("a sandbox that was found counts from the time that its provider names, and has the session's snapshot", () => {
    const info = {
      ref: "r1",
      state: "running",
      session: "s",
      generation: 1,
      createdAt: at - 20_000,
      expiresAt: undefined,
    } as const
    const event = {
      type: "answer",
      number: 2,
      call: { do: "find", generation: 1 },
      answer: { is: "ok", value: { found: [info, { ...info, ref: "twin" }] } },
      at,
    } as const
    const after = { ...running("r1", 1), snapshot: { id: "snap" }, doomed: ["twin"] }
    expect(recordsAfter([], { before: own.before, event, after }, owner, at)).toMatchObject([
      { ref: "r1", createdAt: at - 20_000, countedAt: at - 20_000, image: "snapshot:snap" },
      { ref: "twin", createdAt: at - 20_000, generation: 1, image: undefined },
    ])
  })

  test("a step that changes nothing about sandboxes changes no record", () => {
    const idle = { before: running("r1", 1), after: changedLife(running("r1", 1), { busy: true }) }
    expect(changesHistory(idle)).toBe(false)
    expect(recordsAfter(first, idle, owner, at + 5000)).toEqual([])
  })

  const answered = (before: Life, call: object, is: "ok" | "missing", flags: Flags = {}) => {
    const event = { type: "answer", number: 1, call, answer: { is, value: {} }, at: at + 5000 }
    const after = life({ generation: 1, wanted: before.wanted, ...flags })
    const lifeStep = { before, event, after } as LifeStep
    expect(changesHistory(lifeStep)).toBe(true)
    return recordsAfter(first, lifeStep, owner, at + 5000)
  }

  test.each([
    ["the session has ended", "session-ended", { wanted: "ended" }, "terminate", "ok"],
    ["the session sleeps", "asleep", { wanted: "asleep" }, "terminate", "ok"],
    ["a snapshot has stopped it", "asleep", { wanted: "asleep" }, "snapshot", "ok"],
    ["the session moves to another one", "replaced", { replace: true }, "terminate", "ok"],
    ["the provider does not know it any more", "gone", {}, "probe", "missing"],
  ] as const)("a sandbox that ends because %s has the reason %s", (_, why, over, call, is) => {
    const before = changedLife(running("r1", 1), over)
    expect(answered(before, { do: call, ref: "r1" }, is)).toMatchObject([
      { ref: "r1", endedAt: at + 5000, whyEnded: why, seconds: 5, countedAt: undefined },
    ])
  })

  test("a stray has a record of its own from when it is known until it is terminated", () => {
    const late = {
      type: "answer",
      number: 1,
      call: { do: "create", generation: 1 },
      answer: { is: "ok", value: { ref: "late", image: "image:v" } },
      at,
    } as const
    const own2 = running("r2", 2)
    const known = recordsAfter([], { before: life({}), after: own2 }, owner, at)
    const doomed = { ...own2, doomed: ["late"] }
    const added = recordsAfter(known, { before: own2, event: late, after: doomed }, owner, at)
    expect(added).toMatchObject([{ ref: "late", generation: 1, image: "image:v" }])
    const both = apply(known, added)
    const left = recordsAfter(both, { before: doomed, after: own2 }, owner, at + 2000)
    expect(left).toMatchObject([{ ref: "late", whyEnded: "stray", seconds: 2 }])
  })

  test("a sandbox that exists after all continues its record", () => {
    const gone = apply(
      first,
      recordsAfter(first, { before: own.after, after: life({}) }, owner, at),
    )
    expect(gone).toMatchObject([{ whyEnded: "unknown" }])
    const again = recordsAfter(gone, own, owner, at + 60_000)
    expect(again).toMatchObject([{ ref: "r1", createdAt: at, countedAt: at + 60_000 }])
    expect(again.map(isOpen)).toEqual([true])
  })
})

/**
 * The machine with records beside it. After every step the open records are those of the sandboxes that the life knows, and
 * none is lost or doubled. `jumps`: how far the clock of the records is off, one step after another.
 */
const recorded = (jumps: readonly number[]): Machine => {
  let records: readonly SandboxRecord[] = []
  let sum = 0
  let steps = 0
  const known = new Set<string>()
  const refsOf = ({ ref, doomed }: Life) => [...(ref === undefined ? [] : [ref]), ...doomed]
  return {
    newLife,
    dueAt,
    step: (before, event, policy) => {
      const [after, effects] = step(before, event, policy)
      steps += 1
      const at = event.at + (jumps[steps % jumps.length] ?? 0)
      const lifeStep = { before, event, after }
      const changed = changesHistory(lifeStep) ? recordsAfter(records, lifeStep, owner, at) : []
      const added = secondsAdded(records, changed)
      expect(added).toBeGreaterThanOrEqual(0)
      sum += added
      const endedNow = changed.filter(
        (one) => !isOpen(one) && records.some((old) => old.ref === one.ref && isOpen(old)),
      )
      // Only the provider's answer ends a record.
      if (endedNow.length > 0)
        expect(event.type === "answer" && ["ok", "missing"].includes(event.answer.is)).toBe(true)
      for (const one of endedNow) expect(one.whyEnded).not.toBe("unknown")
      records = apply(records, changed)
      for (const ref of refsOf(after)) known.add(ref)
      const open = records.filter(isOpen)
      expect(open.map(({ ref }) => ref).toSorted()).toEqual(refsOf(after).toSorted())
      expect(records.map(({ ref }) => ref).toSorted()).toEqual([...known].toSorted())
      expect(open.find(({ ref }) => ref === after.ref)?.countedAt !== undefined).toBe(
        after.ref !== undefined && after.phase !== "paused",
      )
      for (const { seconds, createdAt, endedAt = createdAt } of records) {
        expect(seconds).toBeGreaterThanOrEqual(0)
        expect(endedAt).toBeGreaterThanOrEqual(createdAt)
      }
      expect(records.reduce((total, { seconds }) => total + seconds, 0)).toBeCloseTo(sum, 3)
      return [after, effects]
    },
  }
}

describe("the records of a life in which everything goes wrong", () => {
  const jump = fc.constantFrom(0, 0, 0, -86_400_000, -1000, 700, 600_000, 86_400_000)
  test.each(Object.entries(capabilitySets))(
    "every sandbox has one record, which is open as long as it may exist: %s",
    (_, can) => {
      fc.assert(
        fc.property(
          actions(true),
          fc.constantFrom("running" as const, "asleep" as const, "ended" as const),
          fc.array(jump, { minLength: 1, maxLength: 20 }),
          (schedule, final, jumps) => live(recorded(jumps), can, schedule, final, { reaper: true }),
        ),
        { numRuns: 100 },
      )
    },
  )
})
