/** When the disk of a sandbox is measured, what a measurement causes, and when the whole disk has no room left. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { adviceOf, diskNote, diskReport } from "../../../src/fleet/core/disk-notes.ts"
import {
  defaultDiskLimit,
  type DiskEffect,
  type DiskEvent,
  type DiskRoom,
  type DiskSize,
  type DiskState,
  growthOf,
  newDisk,
  noSize,
  reserveOf,
  roomLevel,
  type RoomLevel,
  stepDisk,
} from "../../../src/fleet/core/disk-quota.ts"

const MIB = 1024 * 1024
const GIB = 1024 * MIB
const size = (gib: number, inodes = 100): DiskSize => ({ bytes: gib * GIB, inodes })
const policy = { limit: size(10, 1_000_000) }

type EventOf<Type extends DiskEvent["type"]> = Extract<DiskEvent, { type: Type }>
const look = (change: Partial<EventOf<"look">> = {}): DiskEvent => ({
  type: "look",
  at: 0,
  grown: noSize,
  hasChanged: true,
  room: "enough",
  ...change,
})
const measured = (use: DiskSize, change: Partial<EventOf<"measured">> = {}): DiskEvent => ({
  type: "measured",
  at: 0,
  use,
  tookMs: 100,
  room: "enough",
  ...change,
})
/** The state after these events, and the effects of the last one. */
const after = (
  events: readonly DiskEvent[],
  from: DiskState = newDisk,
): readonly [DiskState, readonly DiskEffect[]] =>
  events.reduce<readonly [DiskState, readonly DiskEffect[]]>(
    ([state], event) => stepDisk(state, event, policy),
    [from, []],
  )
/** Measured once, with this result. */
const using = (...uses: readonly DiskSize[]): DiskState =>
  after(uses.flatMap((use) => [look({ at: 1e9 }), measured(use)]))[0]

describe("a sandbox is measured", () => {
  test("when it is first seen, once", () => {
    const [state, effects] = after([look()])
    expect(effects).toEqual([{ do: "measure", holds: false }])
    expect(stepDisk(state, look(), policy)[1]).toEqual([])
  })

  test("only when the whole disk has grown by a quarter of what it has left, and not within ten seconds", () => {
    const state = using(size(1))
    expect(after([look({ at: 20_000, grown: size(1.9) })], state)[1]).toEqual([])
    const [grown] = after([look({ at: 5000, grown: size(2.1) })], state)
    expect(after([look({ at: 5000, grown: size(2.1) })], state)[1]).toEqual([])
    expect(after([look({ at: 10_000 })], grown)[1]).toEqual([{ do: "measure", holds: false }])
  })

  test("at the latest after ten minutes, if the disk has changed", () => {
    const state = using(size(1))
    expect(after([look({ at: 600_000, hasChanged: false })], state)[1]).toEqual([])
    expect(after([look({ at: 600_000 })], state)[1]).toHaveLength(1)
  })

  test("with its processes stopped as soon as it may be above its limit, whatever the time", () => {
    const state = using(size(8))
    expect(after([look({ at: 1, grown: size(2.1) })], state)[1]).toEqual([])
    expect(after([look({ at: 1, grown: size(2.3) })], state)[1]).toEqual([
      { do: "measure", holds: true },
    ])
    expect(after([look({ at: 1, grown: { bytes: 0, inodes: 1_030_000 } })], state)[1]).toEqual([
      { do: "measure", holds: true },
    ])
  })

  test("rarely if a measurement takes long", () => {
    const [state] = after([look(), measured(size(9.5), { tookMs: 30_000 })])
    expect(after([look({ at: 599_000 })], state)[1]).toEqual([])
    expect(after([look({ at: 600_000 })], state)[1]).toHaveLength(1)
  })

  test("with what was written before a measurement that failed, then without stopping it", () => {
    const [state] = after(
      [look({ at: 1, grown: size(3) }), { type: "not-measured", at: 2 }],
      using(size(8)),
    )
    expect(after([look({ at: 3 })], state)[1]).toEqual([{ do: "measure", holds: false }])
  })

  test("again and again without a limit only as often as the disk changes", () => {
    const unlimited = { limit: { bytes: Infinity, inodes: Infinity } }
    const [first] = stepDisk(newDisk, look(), unlimited)
    const [state, effects] = stepDisk(first, measured(size(5000)), unlimited)
    expect([state.level, effects]).toEqual(["ok", []])
    expect(stepDisk(state, look({ at: 20_000, grown: size(5000) }), unlimited)[1]).toEqual([])
  })
})

describe("a measurement", () => {
  const near = { do: "tell", news: "near" } as const
  const full = [
    { do: "tell", news: "full" },
    { do: "act", action: "end-programs" },
  ] as const

  test("at 90 percent tells the conversation once, also about files", () => {
    expect(after([look(), measured(size(8.9))])[1]).toEqual([])
    expect(after([look(), measured(size(9))])[1]).toEqual([near])
    expect(after([look(), measured(size(1, 900_000))])[1]).toEqual([near])
    expect(after([look(), measured(size(9.2))], using(size(9)))[1]).toEqual([])
  })

  test("between 85 and 90 percent changes nothing", () => {
    expect(after([measured(size(8.7))], using(size(9)))[0].level).toBe("near")
    expect(after([measured(size(9))], using(size(9), size(8.7)))[1]).toEqual([])
    expect(after([measured(size(9))], using(size(9), size(8.4)))[1]).toEqual([near])
  })

  test("at the limit ends what runs, and says so, once", () => {
    expect(after([look(), measured(size(10))])[1]).toEqual(full)
    expect(after([look(), measured(size(1, 1_000_000))])[1]).toEqual(full)
    const state = using(size(10))
    expect(state.ceiling?.bytes).toBe(10.5 * GIB)
    expect(after([measured(size(10.4))], state)[1]).toEqual([])
  })

  test("of a full sandbox that went on writing ends its agent, each time it has grown by a twentieth of its limit", () => {
    const wentOn = [
      { do: "tell", news: "went-on" },
      { do: "act", action: "end-agent" },
    ]
    const [state, effects] = after([measured(size(10.5))], using(size(10)))
    expect(effects).toEqual(wentOn as DiskEffect[])
    expect(after([measured(size(10.9))], state)[1]).toEqual([])
    expect(after([measured(size(11))], state)[1]).toEqual(wentOn as DiskEffect[])
  })

  test("below 95 percent lets a full sandbox go on, and a next time is told again", () => {
    expect(after([measured(size(9.6))], using(size(10)))[0].level).toBe("full")
    const [state, effects] = after([measured(size(9.4))], using(size(10)))
    expect(effects).toEqual([{ do: "tell", news: "freed" }])
    expect(state.ceiling).toBeUndefined()
    expect(after([measured(size(10))], state)[1]).toEqual(full)
  })
})

describe("the whole disk", () => {
  const total = size(100, 1_000_000)
  const room = (gib: number, inodes = 900_000): DiskRoom => ({ total, free: size(gib, inodes) })

  test("keeps a twentieth free, at most 2 GiB and 200,000 files", () => {
    expect(reserveOf(room(1))).toEqual({ bytes: 2 * GIB, inodes: 50_000 })
    const small = { total: size(10, 0), free: size(1, 0) }
    expect(reserveOf(small)).toEqual({ bytes: GIB / 2, inodes: 0 })
  })

  test.each<[RoomLevel, DiskRoom, RoomLevel]>([
    ["enough", room(2), "enough"],
    ["enough", room(1.9), "low"],
    ["enough", room(50, 49_999), "low"],
    ["low", room(2.4), "low"],
    ["low", room(2.5), "enough"],
    ["low", room(1), "low"],
    ["enough", room(0.9), "none"],
    ["none", room(1.4), "none"],
    ["none", room(1.5), "low"],
    ["none", room(2.5), "enough"],
  ])("goes from %s with %j to %s", (before, now, expected) => {
    expect(roomLevel(before, now)).toBe(expected)
  })

  test("a disk that makes files as they are needed is never short of them", () => {
    expect(roomLevel("enough", { total: size(100, 0), free: size(50, 0) })).toBe("enough")
  })

  test("growth counts what became less, and nothing for what became more", () => {
    expect(growthOf(room(5, 100), room(3, 200))).toEqual({ bytes: 2 * GIB, inodes: 0 })
  })

  test("a sandbox that grows while the room is low is paused, and one that does not goes on", () => {
    const [state, effects] = after(
      [look({ at: 1, grown: { bytes: 16 * MIB, inodes: 0 }, room: "low" })],
      using(size(1)),
    )
    expect(effects).toEqual([{ do: "measure", holds: true }])
    const result = (use: DiskSize) => after([measured(use, { room: "low" })], state)
    expect(result(size(1))[1]).toEqual([])
    const grown = { bytes: GIB + 16 * MIB, inodes: 100 }
    expect(result(grown)[1]).toEqual([{ do: "act", action: "pause" }])
    const [freed] = after([look({ at: 2, room: "enough" })], result(grown)[0])
    expect(freed.lowUse).toBeUndefined()
  })
})

test("the limits of a disk are a tenth of it, at least 4 GiB and at most half", () => {
  expect(defaultDiskLimit(size(500, 32_000_000))).toEqual(size(50, 2_000_000))
  expect(defaultDiskLimit(size(20, 1_300_000))).toEqual(size(4, 500_000))
  expect(defaultDiskLimit(size(6, 400_000))).toEqual(size(3, 200_000))
  expect(defaultDiskLimit(size(500, 0)).inodes).toBe(2_000_000)
})

test("every text about a full disk names the use, the limit and what to do", () => {
  const use = size(10.25, 123_456)
  expect(diskNote("full", use, policy.limit)).toContain(
    "10.3 GiB of 10.0 GiB, 123,456 of 1,000,000 files",
  )
  for (const news of ["full", "went-on"] as const) {
    const text = diskNote(news, use, policy.limit)
    for (const part of ["no file was deleted", "delete files", "SANDBOX_DISK_MIB"])
      expect(text).toContain(part)
  }
  expect(adviceOf(use, policy.limit)).toContain("delete files")
  expect(diskNote("near", size(0.25), { bytes: GIB / 4, inodes: Infinity })).toContain(
    "256 MiB of 256 MiB.",
  )
})

test("a report has the numbers that are limited, and advice only while the disk is full", () => {
  const limit = { bytes: 10 * GIB, inodes: Infinity }
  expect(diskReport("ok", size(1), limit, undefined)).toEqual({
    state: "ok",
    usedBytes: GIB,
    limitBytes: 10 * GIB,
    usedFiles: 100,
  })
  const full = diskReport("full", size(10), limit, { bytes: 10.5 * GIB, inodes: Infinity })
  expect(full).toMatchObject({ ceilingBytes: 10.5 * GIB, advice: expect.any(String) })
})

test("whatever is written and measured, a sandbox far above its line is never left running, and levels are told in turn", () => {
  const write = fc.record({
    grown: fc.integer({ min: -2000, max: 3000 }),
    ofOthers: fc.integer({ min: 0, max: 500 }),
    waitMs: fc.integer({ min: 100, max: 30_000 }),
    fails: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(write, { maxLength: 60 }), (writes) => {
      let state = newDisk
      let use = 0
      let at = 0
      let told: string = "freed"
      for (const { grown, ofOthers, waitMs, fails } of writes) {
        const before = use
        use = Math.max(0, use + grown * MIB)
        at += waitMs
        const all = Math.max(0, use - before) + ofOthers * MIB
        const event = look({ at, grown: { bytes: all, inodes: 0 } })
        const line = state.ceiling ?? policy.limit
        const [looked, asked] = stepDisk(state, event, policy)
        // What it has grown by is known of the whole disk, so nothing above the line and the slack stays unseen.
        if (use >= line.bytes + 0.02 * policy.limit.bytes) expect(asked).toHaveLength(1)
        state = looked
        if (asked.length === 0) continue
        const answer: DiskEvent = fails
          ? { type: "not-measured", at }
          : measured({ bytes: use, inodes: 100 }, { at })
        const [next, effects] = stepDisk(state, answer, policy)
        state = next
        if (fails) continue
        const acts = effects.flatMap((one) => (one.do === "act" ? [one.action] : []))
        if (use >= line.bytes) expect(acts).toHaveLength(1)
        else expect(acts).toEqual([])
        for (const effect of effects) {
          if (effect.do !== "tell") continue
          if (effect.news === "went-on" || effect.news === "freed")
            expect(["full", "went-on"]).toContain(told)
          if (effect.news === "full") expect(["freed", "near"]).toContain(told)
          told = effect.news
        }
      }
    }),
  )
})
