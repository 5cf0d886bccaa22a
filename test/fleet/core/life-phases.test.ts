/** What can be true in a phase: the compiler refuses the rest, and a transition leaves it behind. */
import { expect, test } from "bun:test"
import { type In, type Life, newLife } from "../../../src/fleet/core/life.ts"
import { enter } from "../../../src/fleet/core/life-phases.ts"

const made = {
  ...newLife,
  generation: 1,
  ref: "a",
  unsure: false,
  twin: false,
  replace: false,
  restarted: false,
} as const
const running: In<"running"> = { ...made, phase: "running", runner: "idle", work: "unsaved" }
const booting: In<"booting"> = {
  ...made,
  phase: "booting",
  work: "none",
  bootBy: 2,
  unlinkedAt: 1,
}

test("a life with a fact that is not true in its phase does not compile, nor one that lacks a fact of its phase", () => {
  const wrong: readonly Life[] = [
    // @ts-expect-error a sandbox that does not exist has no id
    { ...newLife, ref: "a" },
    // @ts-expect-error a sandbox that does not exist has no work
    { ...newLife, work: "unsaved" },
    // @ts-expect-error a sandbox that runs has an id
    { ...newLife, phase: "running", runner: "idle", work: "none" },
    // @ts-expect-error a sandbox that may exist has no id yet
    { ...newLife, phase: "creating", runner: "away", work: "none", ref: "a" },
    // @ts-expect-error the runner of a sandbox that boots has no connection
    { ...booting, runner: "idle" },
    // @ts-expect-error a sandbox that runs has booted
    { ...running, bootBy: 2 },
    // @ts-expect-error a sandbox that runs is not paused
    { ...running, pausedAt: 2 },
    // @ts-expect-error it is known since when a sandbox is paused
    { ...running, phase: "paused" },
    // @ts-expect-error what was true while it booted is not true any more
    { ...booting, phase: "running", runner: "idle" },
    // @ts-expect-error only sleep is deep
    { ...running, wanted: "running", deep: true },
    // @ts-expect-error a hook that holds was answered at some time
    { ...running, hook: { holds: true } },
    // @ts-expect-error there is no such phase
    { ...running, phase: "saving" },
  ]
  expect(wrong).toHaveLength(12)
})

test("a transition needs the facts of the new phase that the present one does not have", () => {
  // @ts-expect-error the time of the pause is not given
  enter(running, "paused", {})
  // @ts-expect-error nothing is known of the runner of a sandbox that boots
  enter(booting, "running", {})
  // @ts-expect-error a sandbox that does not exist has no id
  enter(newLife, "running", { runner: "idle" })
  // @ts-expect-error a sandbox that runs is not paused
  enter(booting, "running", { runner: "idle", pausedAt: 3 })
  const paused = enter(running, "paused", { pausedAt: 3 })
  expect(paused).toEqual({ ...running, phase: "paused", pausedAt: 3 })
})

test("a transition leaves behind what is not true any more, and keeps what is known of the session", () => {
  const known = enter(booting, "running", { runner: "busy", work: "unsaved" })
  expect(known).toMatchObject({ phase: "running", ref: "a", runner: "busy", work: "unsaved" })
  expect([known.bootBy, known.unlinkedAt]).toEqual([undefined, undefined])
  const session = { snapshot: { id: "s" }, doomed: ["b"], failures: 2, waits: true, idleMs: 9 }
  const absent: Life = { ...newLife, ...session, generation: 1 }
  expect<Life>(enter({ ...running, ...session }, "absent", {})).toEqual(absent)
})
