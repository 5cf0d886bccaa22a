/** The machine of a sandbox's life, against a simulated provider and in single cases. */
import { describe, expect, test } from "bun:test"
import {
  afterAnswer,
  afterCreate,
  blockedFor,
  closedBreaker,
} from "../../../src/fleet/core/breaker.ts"
import { lifeSchema, rowOf } from "../../../src/fleet/store/life-row.ts"
import {
  type Answer,
  type Life,
  type LifeEffect,
  type LifeEvent,
  type LifePolicy,
  newLife,
} from "../../../src/fleet/core/life.ts"
import { notes } from "../../../src/fleet/core/life-notes.ts"
import { pausedTime } from "../../../src/fleet/core/paused-time.ts"
import { dueAt, step } from "../../../src/fleet/core/life-state.ts"
import type { Capabilities, SandboxInfo } from "../../../src/fleet/providers/contract.ts"
import { lifeProperties } from "./life-properties.ts"
import { type Action, capabilities, capabilitySets, live } from "./life-world.ts"

const DAY = 86_400_000
const machine = { newLife, step, dueAt }

describe("one session has one sandbox, and unsaved work is never terminated", () => {
  for (const { name, check } of lifeProperties)
    test(`a session with a provider with ${name} has one sandbox and loses no unsaved work`, () =>
      check(machine, 2000))
})

test("a runner that counted as down is not restarted after a pause by the provider and a resume", () => {
  const perform = { do: "perform", fault: "none" } as const
  const schedule: readonly Action[] = [
    { do: "want", wanted: "running", deep: false },
    perform,
    { do: "link", on: true, answers: false },
    { do: "link", on: false, answers: true },
    { do: "tick", seconds: 4000 },
    perform,
    perform,
    { do: "auto-pause" },
    { do: "tick", seconds: 130 },
    { do: "replica-dies", when: "before" },
  ]
  const can = capabilitySets["pause that is the snapshot, names not unique"]
  if (!can) throw new Error("no such provider")
  expect(() => live(machine, can, schedule, "running", { reaper: false })).not.toThrow()
})

const ok = (value: Extract<Answer, { is: "ok" }>["value"] = {}): Answer => ({ is: "ok", value })

const boxInfo = (state: SandboxInfo["state"], ref = "a"): SandboxInfo => ({
  ref,
  state,
  session: "s",
  generation: 1,
  createdAt: 0,
  expiresAt: undefined,
})

/** Feeds events to one life and remembers the last effects. */
const newScene = (can: Partial<Capabilities>, over: Partial<LifePolicy> = {}) => {
  const policy: LifePolicy = {
    can: capabilities(can),
    bootMs: 120_000,
    relinkMs: 60_000,
    idleMs: 900_000,
    pausedMs: undefined,
    minimumVersion: undefined,
    ...over,
  }
  let life: Life = newLife
  let effects: readonly LifeEffect[] = []
  const feed = (event: LifeEvent) => {
    ;[life, effects] = step(life, event, policy)
    return call()
  }
  const call = () => effects.find((effect) => effect.do === "call")
  return {
    feed,
    /** In the form in which it is stored. */
    life: () => rowOf(life),
    noteTexts: () => effects.flatMap((effect) => (effect.do === "note" ? [effect.text] : [])),
    due: (at: number) => dueAt(life, policy, at),
    want: (wanted: Life["wanted"], at: number) => feed({ type: "want", wanted, at })?.call,
    runner: (at: number, busy = false, linked = true) =>
      feed({ type: "runner", generation: life.generation, linked, busy, at })?.call,
    /** Answers the pending call and returns the next one. */
    answer: (answer: Answer, at: number) => {
      const { pending } = life
      if (!pending) throw new Error("no call is pending")
      return feed({ type: "answer", number: pending.number, call: pending.call, answer, at })?.call
    },
  }
}

describe("a sandbox that is found while it is still being made", () => {
  /** The replica that makes it is gone: another one finds it. */
  const foundStarting = () => {
    const scene = newScene({ supportsPause: true, snapshot: "copy" })
    scene.want("running", 0)
    scene.feed({ type: "lost", number: scene.life().number, at: 30_000 })
    scene.answer(ok({ found: [boxInfo("starting")] }), 30_000)
    return scene
  }

  test("is looked at every five seconds until its provider says that it runs", () => {
    const scene = foundStarting()
    expect(scene.life()).toMatchObject({ phase: "booting", ref: "a" })
    expect(scene.due(30_000)).toBe(35_000)
    expect(scene.feed({ type: "due", at: 34_999 })).toBeUndefined()
    expect(scene.feed({ type: "due", at: 35_000 })?.call).toEqual({ do: "probe", ref: "a" })
    scene.answer(ok({ info: boxInfo("starting") }), 36_000)
    expect(scene.due(36_000)).toBe(41_000)
    expect(scene.feed({ type: "due", at: 41_000 })?.call).toEqual({ do: "probe", ref: "a" })
    expect(scene.answer(ok({ info: boxInfo("running") }), 41_000)).toBeUndefined()
    // From now on only the limit of its boot counts.
    expect(scene.due(41_000)).toBe(150_000)
  })

  test("is made again at once if the process that made it has died", () => {
    const scene = foundStarting()
    scene.feed({ type: "due", at: 35_000 })
    expect(scene.answer(ok({ info: boxInfo("stopped") }), 35_000)).toEqual({
      do: "resume",
      ref: "a",
    })
    // The local provider says this of a sandbox that is half made.
    expect(scene.answer({ is: "missing" }, 35_000)).toEqual({ do: "create", generation: 2 })
  })

  test("is looked at no more when its runner has connected", () => {
    const scene = foundStarting()
    scene.runner(31_000)
    expect(scene.life().phase).toBe("running")
    expect(scene.life().lookAt).toBeUndefined()
    expect(scene.feed({ type: "due", at: 35_000 })).toBeUndefined()
  })

  test("is asked for again after an answer in doubt", () => {
    const scene = foundStarting()
    scene.feed({ type: "due", at: 35_000 })
    expect(scene.answer({ is: "unknown", why: "timeout" }, 36_000)).toBeUndefined()
    const again = scene.due(36_000) ?? 0
    expect(again).toBeLessThan(41_000)
    expect(scene.feed({ type: "due", at: again })?.call).toEqual({ do: "probe", ref: "a" })
  })
})

describe("sleeping and waking", () => {
  test("a sandbox without pause is prepared, saved and terminated, and restored from its snapshot", () => {
    const scene = newScene({ snapshot: "copy" })
    expect(scene.want("running", 0)).toEqual({ do: "create", generation: 1 })
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    expect(scene.want("asleep", 3)).toEqual({ do: "prepare", ref: "a" })
    expect(scene.answer(ok(), 4)).toEqual({ do: "snapshot", ref: "a" })
    expect(scene.answer(ok({ snapshot: { id: "s1" } }), 5)).toEqual({ do: "terminate", ref: "a" })
    expect(scene.answer(ok(), 6)).toBeUndefined()
    expect(scene.want("running", 7)).toEqual({ do: "create", generation: 2, snapshot: "s1" })
    expect(scene.noteTexts()).toEqual([])
  })

  test("a prompt between snapshot and terminate continues the sandbox after the hook", () => {
    const scene = newScene({ snapshot: "copy" })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    scene.want("asleep", 3)
    scene.answer(ok(), 4)
    scene.want("running", 5)
    expect(scene.answer(ok({ snapshot: { id: "s1" } }), 6)).toEqual({ do: "release", ref: "a" })
    expect(scene.answer(ok(), 7)).toBeUndefined()
    expect(scene.life()).toMatchObject({ phase: "running", ref: "a" })
  })

  test("a prompt that reaches the runner while it sleeps for a snapshot wakes it afterwards", () => {
    for (const wanted of ["running", "asleep"] as const) {
      const scene = newScene({ snapshot: "copy" })
      scene.want("running", 0)
      scene.answer(ok({ ref: "a" }), 1)
      scene.runner(2)
      scene.want("asleep", 3)
      expect(scene.answer(ok(), 4)).toEqual({ do: "snapshot", ref: "a" })
      scene.runner(5, true)
      scene.want(wanted, 6)
      expect(scene.answer(ok({ snapshot: { id: "s1" } }), 7)).toEqual({ do: "release", ref: "a" })
      // An answer in doubt is not enough: the runner would sleep on.
      expect(scene.answer({ is: "unknown", why: "timeout" }, 8)).toBeUndefined()
      expect(scene.feed({ type: "due", at: 10_000 })?.call).toEqual({ do: "release", ref: "a" })
      expect(scene.answer(ok(), 10_001)).toBeUndefined()
      expect(scene.life()).toMatchObject({ phase: "running", prepared: false })
    }
  })

  test("the hook runs again before every attempt of a snapshot, and the delays of the attempts grow", () => {
    const scene = newScene({ snapshot: "copy" })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    expect(scene.want("asleep", 3)?.do).toBe("prepare")
    let at = 4
    const delays: number[] = []
    for (let attempt = 0; attempt < 6; attempt += 1) {
      expect(scene.answer(ok(), at)).toEqual({ do: "snapshot", ref: "a" })
      scene.answer({ is: "unknown", why: "timeout" }, at)
      const due = Number(scene.due(at))
      delays.push(due - at)
      at = due
      expect(scene.feed({ type: "due", at })?.call.do).toBe("probe")
      expect(scene.answer(ok({ info: boxInfo("running") }), at)?.do).toBe("prepare")
    }
    expect(delays).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000])
    // The replica that makes the snapshot dies.
    scene.answer(ok(), at)
    scene.feed({ type: "lost", number: scene.life().number, at })
    expect(scene.answer(ok({ info: boxInfo("running") }), at)?.do).toBe("prepare")
  })

  test("a runner that was started again does not sleep for a snapshot, so the hook after one is not called", () => {
    const scene = newScene({ snapshot: "copy" })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    expect(scene.want("asleep", 3)?.do).toBe("prepare")
    scene.want("running", 4)
    scene.runner(5, false, false)
    expect(scene.answer(ok(), 6)).toBeUndefined()
    expect(scene.feed({ type: "due", at: 60_005 })?.call.do).toBe("probe")
    scene.answer(ok({ info: boxInfo("running") }), 60_006)
    expect(scene.feed({ type: "due", at: 70_000 })?.call.do).toBe("restart")
    expect(scene.answer(ok(), 70_001)).toBeUndefined()
    expect(scene.runner(70_002)).toBeUndefined()
    expect(scene.life()).toMatchObject({ phase: "running", prepared: false })
  })

  test("a hook that was called too long ago does not count for a snapshot", () => {
    const scene = newScene({ snapshot: "copy" })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    scene.want("asleep", 3)
    const failed: Answer = { is: "unknown", why: "no answer" }
    scene.answer(failed, 4)
    for (const at of [10_000, 20_000]) {
      expect(scene.feed({ type: "due", at })?.call.do).toBe("prepare")
      scene.answer(failed, at)
    }
    // It would be saved without the hook now, but the provider does not answer for some minutes.
    expect(scene.life().prepared).toBe(true)
    scene.feed({ type: "seen", found: [], at: 20_001 })
    expect(scene.feed({ type: "due", at: 60_000 })?.call.do).toBe("probe")
    expect(scene.answer(ok({ info: boxInfo("running") }), 240_000)?.do).toBe("prepare")
  })

  test("an idle sandbox sleeps after the idle time, and a busy one does not", () => {
    const scene = newScene({ supportsPause: true })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2, true)
    expect(scene.feed({ type: "due", at: 2_000_000 })).toBeUndefined()
    scene.runner(2_000_001)
    expect(scene.due(2_000_001)).toBe(2_900_001)
    expect(scene.feed({ type: "due", at: 2_900_001 })?.call).toEqual({ do: "pause", ref: "a" })
  })

  test("people who work in a sandbox keep it awake, and a repeated report of the same work does not", () => {
    const scene = newScene({ supportsPause: true })
    const report = (at: number, usedAt?: number) =>
      scene.feed({ type: "runner", generation: 1, linked: true, busy: false, usedAt, at })?.call
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    report(2)
    expect(scene.due(2)).toBe(900_001)
    // The clock of the hub is another one.
    report(800_000, 5)
    expect(scene.due(800_000)).toBe(1_700_000)
    report(900_000, 5)
    expect(scene.due(900_000)).toBe(1_700_000)
    report(1_000_000, 9)
    expect(scene.feed({ type: "due", at: 1_899_999 })).toBeUndefined()
    expect(scene.feed({ type: "due", at: 1_900_000 })?.call).toEqual({ do: "pause", ref: "a" })
  })

  test("people do not keep a sandbox awake that was asked to sleep, and what they do meanwhile is saved", () => {
    const scene = newScene({ snapshot: "copy" })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    const idleAt = scene.life().idleAt
    scene.want("asleep", 3)
    expect(scene.answer(ok(), 4)).toEqual({ do: "snapshot", ref: "a" })
    scene.feed({ type: "runner", generation: 1, linked: true, busy: false, usedAt: 5, at: 5 })
    expect(scene.life()).toMatchObject({ wanted: "asleep", idleAt })
    expect(scene.answer(ok({ snapshot: { id: "s1" } }), 6)).toEqual({ do: "prepare", ref: "a" })
    expect(scene.answer(ok(), 7)).toEqual({ do: "snapshot", ref: "a" })
    expect(scene.answer(ok({ snapshot: { id: "s2" } }), 8)).toEqual({ do: "terminate", ref: "a" })
  })

  test("a sandbox that is asked to sleep runs the prompts that wait for its agent first, for the idle time at most", () => {
    const scene = newScene({ supportsPause: true })
    const report = (at: number, waits: boolean, busy = false) =>
      scene.feed({ type: "runner", generation: 1, linked: true, busy, waits, at })?.call
    scene.want("running", 0)
    // The queue is the session's: it is known before there is a runner of this generation.
    scene.feed({ type: "runner", generation: 0, linked: false, busy: false, waits: true, at: 1 })
    expect(scene.want("asleep", 2)).toBeUndefined()
    expect(scene.answer(ok({ ref: "a" }), 3)).toBeUndefined()
    expect(report(4, true)).toBeUndefined()
    expect(report(5, true, true)).toBeUndefined()
    expect(report(6, false)).toEqual({ do: "pause", ref: "a" })
    scene.answer(ok(), 7)
    // An agent that never begins does not keep its sandbox awake.
    scene.want("running", 8)
    scene.answer(ok(), 9)
    report(10, true)
    expect(scene.want("asleep", 11)).toBeUndefined()
    const due = Number(scene.due(11))
    expect(due).toBeLessThanOrEqual(900_010)
    expect(scene.feed({ type: "due", at: due })?.call).toEqual({ do: "pause", ref: "a" })
  })

  test("prompts leave a sandbox asleep that runs them first, and wake one that has begun to sleep", () => {
    const scene = newScene({ supportsPause: true })
    const prompts = (at: number) => {
      scene.feed({ type: "runner", generation: 1, linked: true, busy: false, waits: true, at })
      return scene.feed({ type: "want", wanted: "running", forPrompts: true, at })?.call
    }
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2, true)
    expect(scene.want("asleep", 3)).toBeUndefined()
    prompts(4)
    expect(scene.life().wanted).toBe("asleep")
    const none = { generation: 1, linked: true, busy: false, waits: false } as const
    expect(scene.feed({ type: "runner", ...none, at: 5 })?.call.do).toBe("pause")
    prompts(6)
    expect(scene.answer(ok(), 7)).toEqual({ do: "resume", ref: "a" })
    expect(scene.life().wanted).toBe("running")
  })

  for (const [when, isEarly] of [
    ["while it is being saved", true],
    ["after it was saved", false],
  ] as const)
    test(`a sandbox of another session agent that is wanted again ${when} is saved again before its end`, () => {
      const scene = newScene({ snapshot: "copy", startsRunner: false, supportsPause: false })
      scene.want("running", 0)
      scene.answer(ok({ ref: "a" }), 10)
      const sleep = (at: number) => scene.feed({ type: "want", wanted: "asleep", deep: true, at })
      expect(sleep(20)?.call.do).toBe("snapshot")
      if (isEarly) scene.want("running", 30)
      scene.answer(ok({ snapshot: { id: "one" } }), 40)
      if (!isEarly) {
        // Its end is refused, so the sandbox is there.
        scene.answer({ is: "refused", why: "no" }, 50)
        scene.want("running", 60)
        scene.feed({ type: "due", at: 50_000 })
        const info = { ref: "a", session: "s", generation: 1, state: "running" } as const
        scene.answer(ok({ info: { ...info, createdAt: 10, expiresAt: undefined } }), 50_010)
      }
      // Nothing is heard of its runner: it may have worked.
      expect(scene.life()).toMatchObject({ phase: "running", ref: "a", saved: false })
      expect(sleep(100_000)?.call.do).toBe("snapshot")
    })

  test("a sandbox of another session agent is not made without the snapshot that was asked for", () => {
    const scene = newScene({ snapshot: "copy" }, { hasSuccessors: false })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    scene.want("asleep", 3)
    scene.answer(ok(), 4)
    scene.answer(ok({ snapshot: { id: "s" } }), 5)
    scene.answer(ok(), 6)
    expect(scene.want("running", 7)).toEqual({ do: "create", generation: 2, snapshot: "s" })
    expect(scene.answer({ is: "missing" }, 8)).toBeUndefined()
    expect(scene.feed({ type: "due", at: 100_000 })).toBeUndefined()
    expect(scene.life()).toMatchObject({
      phase: "absent",
      lastError: "the snapshot does not exist",
    })
  })

  test("a sandbox that was paused for long is woken once more to be saved, and ended", () => {
    const scene = newScene({ supportsPause: true, snapshot: "copy" }, { pausedMs: 1000 })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    scene.want("asleep", 3)
    expect(scene.answer(ok(), 4)).toBeUndefined()
    expect(scene.feed({ type: "due", at: 1004 })?.call).toEqual({ do: "resume", ref: "a" })
    expect(scene.answer(ok(), 1005)).toEqual({ do: "prepare", ref: "a" })
    expect(scene.answer(ok(), 1006)).toEqual({ do: "snapshot", ref: "a", ends: true })
    expect(scene.answer(ok({ snapshot: { id: "s" } }), 1007)?.do).toBe("terminate")
  })

  test("a sandbox that its last snapshot has paused is terminated, or resumed if a prompt came meanwhile", () => {
    const scene = newScene({ supportsPause: true, snapshot: "copy" })
    const saved = ok({ snapshot: { id: "s" }, isPaused: true })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    scene.feed({ type: "want", wanted: "asleep", deep: true, at: 3 })
    expect(scene.answer(ok(), 4)).toEqual({ do: "snapshot", ref: "a", ends: true })
    scene.want("running", 5)
    expect(scene.answer(saved, 6)).toEqual({ do: "resume", ref: "a" })
    expect(scene.answer(ok(), 7)).toEqual({ do: "release", ref: "a" })
    expect(scene.answer(ok(), 8)).toBeUndefined()
    expect(scene.life()).toMatchObject({ phase: "running", ref: "a", snapshot: { id: "s" } })
    scene.runner(9, true)
    scene.runner(10)
    scene.feed({ type: "want", wanted: "asleep", deep: true, at: 11 })
    expect(scene.answer(ok(), 12)).toEqual({ do: "snapshot", ref: "a", ends: true })
    expect(scene.answer(saved, 13)).toEqual({ do: "terminate", ref: "a" })
  })
})

describe("a provider whose snapshot is the paused sandbox", () => {
  const can = { supportsPause: true, snapshot: "pause", uniqueNames: true } as const
  const running = (over: Partial<LifePolicy> = {}) => {
    const scene = newScene(can, over)
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    return scene
  }

  test("a hibernated sandbox is saved, which pauses it, then ended, and restored from its snapshot", () => {
    const scene = running()
    expect(scene.feed({ type: "want", wanted: "asleep", deep: true, at: 3 })?.call.do).toBe(
      "prepare",
    )
    expect(scene.answer(ok(), 4)?.do).toBe("snapshot")
    expect(scene.answer(ok({ snapshot: { id: "s" } }), 5)).toEqual({ do: "terminate", ref: "a" })
    expect(scene.answer(ok(), 6)).toBeUndefined()
    expect(scene.want("running", 7)).toEqual({ do: "create", generation: 2, snapshot: "s" })
  })

  test("a prompt during the save resumes the sandbox, and a plain sleep only pauses it", () => {
    const scene = running()
    scene.feed({ type: "want", wanted: "asleep", deep: true, at: 3 })
    scene.answer(ok(), 4)
    expect(scene.want("running", 5)).toBeUndefined()
    expect(scene.answer(ok({ snapshot: { id: "s" } }), 6)).toEqual({ do: "resume", ref: "a" })
    const other = running({ pausedMs: 1000 })
    expect(other.want("asleep", 3)).toEqual({ do: "pause", ref: "a" })
    expect(other.answer(ok(), 4)).toBeUndefined()
    expect(other.feed({ type: "due", at: 1004 })?.call).toEqual({ do: "resume", ref: "a" })
  })
})

test("a paused sandbox is saved before its provider deletes it, and one that is stored with its memory after another time", () => {
  const limits = { pausedMs: 3_600_000, storedMs: 30 * DAY }
  expect(pausedTime({ snapshot: "copy" }, limits)).toBe(3_600_000)
  expect(pausedTime({ snapshot: "copy" }, { ...limits, pausedMs: undefined })).toBeUndefined()
  expect(pausedTime({ snapshot: "pause" }, limits)).toBe(30 * DAY)
  expect(pausedTime({ snapshot: "pause" }, { ...limits, storedMs: 0 })).toBeUndefined()
  const deletes = { snapshot: "copy", pausedLifeMs: 2 * DAY } as const
  expect(pausedTime(deletes, limits)).toBe(3_600_000)
  expect(pausedTime(deletes, { ...limits, pausedMs: undefined })).toBe(DAY)
})

describe("the provider's end of a sandbox", () => {
  const running = () => {
    const scene = newScene({ snapshot: "copy", maxLifeMs: 3_600_000 })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a", expiresAt: 3_600_000 }), 1)
    return scene
  }

  test("an idle session moves to a new sandbox ten minutes before the end", () => {
    const scene = running()
    scene.runner(2, true)
    scene.runner(2_900_000)
    expect(scene.feed({ type: "due", at: 3_000_000 })?.call.do).toBe("prepare")
    expect(scene.answer(ok(), 3_000_001)?.do).toBe("snapshot")
    expect(scene.answer(ok({ snapshot: { id: "s" } }), 3_000_002)?.do).toBe("terminate")
    expect(scene.answer(ok(), 3_000_003)).toEqual({ do: "create", generation: 2, snapshot: "s" })
  })

  test("a busy session is saved two minutes before the end and not terminated", () => {
    const scene = running()
    scene.runner(2, true)
    expect(scene.feed({ type: "due", at: 3_000_000 })).toBeUndefined()
    expect(scene.feed({ type: "due", at: 3_480_000 })?.call.do).toBe("prepare")
    expect(scene.answer(ok(), 3_480_001)?.do).toBe("snapshot")
    expect(scene.answer(ok({ snapshot: { id: "s" } }), 3_480_002)).toBeUndefined()
    expect(scene.life().snapshot?.id).toBe("s")
  })
})

describe("what cannot be brought back", () => {
  test("a sandbox that vanished with unsaved work is reported", () => {
    const scene = newScene({ supportsPause: true })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2, true)
    scene.runner(3, false, false)
    expect(scene.feed({ type: "due", at: 60_004 })?.call.do).toBe("probe")
    expect(scene.answer({ is: "missing" }, 60_005)?.do).toBe("create")
    expect(scene.noteTexts()).toEqual([notes.workLost])
  })

  test("a sandbox in which nothing runs is replaced without a report", () => {
    const scene = newScene({ startsRunner: false }, { hasFiles: false })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    expect(scene.life()).toMatchObject({ phase: "running", touched: true })
    scene.feed({ type: "seen", at: 2, found: [] })
    scene.feed({ type: "due", at: 3 })
    expect(scene.answer({ is: "missing" }, 4)?.do).toBe("create")
    expect(scene.noteTexts()).toEqual([])
  })

  test("a snapshot below the minimum version is not restored, and that is reported", () => {
    const scene = newScene({ snapshot: "stop", exec: false }, { minimumVersion: "0.10.0" })
    scene.want("running", 0)
    scene.answer(ok({ ref: "a" }), 1)
    scene.runner(2)
    scene.want("asleep", 3)
    scene.answer(ok({ snapshot: { id: "s", version: "0.9.3" } }), 4)
    expect(scene.want("running", 5)).toEqual({ do: "create", generation: 2 })
    expect(scene.noteTexts()).toEqual([notes.snapshotTooOld])
  })

  test("after five refusals the session is told, and the next prompt tries again", () => {
    const scene = newScene({})
    scene.want("running", 0)
    let at = 0
    for (let refusal = 0; refusal < 5; refusal++) {
      at += 40_000
      scene.answer({ is: "refused", why: "no credit" }, at)
      if (refusal < 4) scene.feed({ type: "due", at: at + 39_999 })
    }
    expect(scene.noteTexts()).toEqual([notes.failed("no credit")])
    expect(scene.life()).toMatchObject({ failed: true, lastError: "no credit" })
    expect(scene.want("running", at + 1)?.do).toBe("create")
  })

  test("a create is repeated when the provider allows it again, and not before", () => {
    const scene = newScene({})
    scene.want("running", 0)
    expect(scene.answer({ is: "unknown", why: "429", afterMs: 60_000 }, 1)).toBeUndefined()
    expect(scene.due(1)).toBe(60_001)
    expect(scene.feed({ type: "due", at: 60_000 })).toBeUndefined()
    expect(scene.feed({ type: "due", at: 60_001 })?.call.do).toBe("find")
    expect(scene.answer(ok({ found: [] }), 60_002)?.do).toBe("create")
  })

  test("a sandbox that cannot be resumed is tried again after growing delays, and the session is told once", () => {
    const scene = newScene({ supportsPause: true })
    scene.want("running", 0)
    scene.answer(ok({ ref: "s1" }), 1)
    scene.runner(2)
    scene.want("asleep", 3)
    scene.answer(ok(), 4)
    expect(scene.want("running", 5)?.do).toBe("resume")
    const info = boxInfo("paused", "s1")
    const delays: number[] = []
    const told: string[] = []
    let at = 5
    for (let attempt = 0; attempt < 7; attempt++) {
      scene.answer({ is: "unknown", why: "no answer" }, at)
      told.push(...scene.noteTexts())
      const next = scene.due(at) ?? 0
      delays.push(next - at)
      at = next
      // The provider says that the sandbox is there.
      expect(scene.feed({ type: "due", at })?.call.do).toBe("probe")
      expect(scene.answer(ok({ info }), at)?.do).toBe("resume")
    }
    expect(delays).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000])
    expect(told).toEqual([notes.delayed("no answer")])
  })

  test("a create that was refused leaves nothing about a sandbox, and one whose runner connects all the same is looked for", () => {
    const scene = newScene({})
    scene.want("running", 0)
    scene.runner(1, true)
    expect(scene.answer({ is: "refused", why: "no credit" }, 2)).toBeUndefined()
    expect(scene.life()).toMatchObject({ phase: "absent", linked: false, touched: false })
    scene.runner(3)
    expect(scene.feed({ type: "due", at: 5000 })?.call).toEqual({ do: "find", generation: 1 })
  })

  test("a create that the breaker blocks is no failure and is tried again after the wait", () => {
    const scene = newScene({})
    scene.want("running", 0)
    scene.answer({ is: "blocked", why: "the provider refuses creates", afterMs: 50_000 }, 10)
    expect(scene.life()).toMatchObject({ failures: 0, failed: false })
    expect(scene.due(10)).toBe(50_010)
    expect(scene.feed({ type: "due", at: 50_010 })?.call.do).toBe("create")
  })
})

describe("the breaker of a provider", () => {
  test("five refusals within five minutes block creates for a minute, and a success closes it", () => {
    let breaker = closedBreaker
    for (const at of [0, 1, 2, 3]) breaker = afterAnswer(breaker, true, at)
    expect(blockedFor(breaker, 4)).toBe(0)
    breaker = afterAnswer(breaker, true, 4)
    expect(blockedFor(breaker, 10_004)).toBe(50_000)
    expect(blockedFor(breaker, 60_004)).toBe(0)
    expect(blockedFor(afterAnswer(breaker, false, 5), 6)).toBe(0)
  })

  test("after the wait one create is a trial, and the others wait for its answer", () => {
    let breaker = closedBreaker
    expect(afterCreate(breaker, 0)).toBe(breaker)
    for (const at of [0, 1, 2, 3, 4]) breaker = afterAnswer(breaker, true, at)
    const trial = afterCreate(breaker, 60_004)
    expect(blockedFor(trial, 60_004)).toBe(60_000)
    expect(blockedFor(afterAnswer(trial, true, 60_100), 60_101)).toBe(59_999)
    expect(blockedFor(afterAnswer(trial, false, 60_100), 60_101)).toBe(0)
    // Its answer was lost: another one is the trial.
    expect(blockedFor(trial, 120_004)).toBe(0)
  })
})

test("a life that was stored as JSON is read unchanged", () => {
  const scene = newScene({})
  scene.want("running", 0)
  const life = scene.life()
  expect(rowOf(lifeSchema.parse(JSON.parse(JSON.stringify(life))))).toEqual(life)
})
