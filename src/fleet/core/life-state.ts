/**
 * The machine of one sandbox's life: `step(life, event) -> [life, effects]`. It records before it creates, looks before it
 * creates again, and an answer in doubt destroys nothing.
 */
import type { SandboxInfo } from "../providers/contract.ts"
import { isGivenUp, isInDoubt, isLinked, isTouched } from "./life.ts"
import type { Call, Life, LifeEffect, LifeEvent, LifePolicy } from "./life.ts"
import { answered, answeredLate } from "./life-answers.ts"
import { mustRotate, nextCall, rotateTimes } from "./life-next.ts"
import { notes } from "./life-notes.ts"
import { booting, type Change, doom, enter, type Now, ownOf } from "./life-phases.ts"
import { running, unprepared, worked } from "./life-phases.ts"
import { isAtLeast } from "./version-key.ts"

/** An event of this type. */
type On<T extends LifeEvent["type"]> = LifeEvent & { readonly type: T }

const runnerChanged = (before: Life, event: On<"runner">, now: Now): Life => {
  const { can, at } = now
  const { linked, busy, waits, usedAt } = event
  const life = waits === undefined ? before : { ...before, waits }
  if (event.generation !== life.generation || life.phase === "ended") return life
  const used = linked && usedAt !== undefined && usedAt !== life.usedAt
  // People keep a sandbox awake, but not one that was asked to sleep.
  const staysAwake =
    life.runner === "busy" || life.idleAt === undefined || (used && life.wanted === "running")
  const known = {
    ...(busy || used || (linked && !isTouched(life)) ? worked(unprepared(life)) : life),
    ...(used && { usedAt }),
    idleAt: busy ? undefined : staysAwake ? at + now.idleMs : life.idleAt,
  }
  const runner = linked ? (busy ? "busy" : "idle") : "away"
  const isUsed = used || (linked && (busy || life.ref !== undefined))
  const work = isUsed && !isTouched(life) ? "unsaved" : (known.work ?? "none")
  switch (known.phase) {
    // A create that was given up has made a sandbox after all.
    case "absent":
      return linked ? enter(known, "creating", { runner, work }) : known
    // A runner that connects after all does not need to be replaced.
    case "booting":
      return linked
        ? running({ ...known, replace: known.replace && mustRotate(known, at) }, runner)
        : known
    case "running":
      return linked || !can.startsRunner
        ? { ...known, runner, work }
        : booting(known, now.relinkMs, at)
    default:
      return { ...known, runner, work }
  }
}

/** The sweep saw these sandboxes. A call under way may explain any difference, so the sweep waits for it. */
const seen = (life: Life, found: readonly SandboxInfo[]): Life => {
  if (life.pending !== undefined || isInDoubt(life)) return life
  const own = ownOf(life, found)
  const isNew = own.some(
    ({ generation, ref }) => generation === life.generation && !life.doomed.includes(ref),
  )
  // A create that was given up has made a sandbox after all: a look adopts it.
  if (life.wanted !== "ended" && life.ref === undefined && isNew)
    return enter(life, "creating", { runner: "away", work: "none" })
  const present = found.find(({ ref }) => ref === life.ref)
  const runs = present?.state === "running" || present?.state === "starting"
  const differs = !present || runs !== (life.phase !== "paused")
  return doom(
    life.ref !== undefined && differs ? { ...life, unsure: true } : life,
    own.map(({ ref }) => ref),
  )
}

/** What the time alone changes: an idle sandbox sleeps, one that slept long is saved, one that expires is replaced. */
const atTime = (before: Life, { pausedMs, at }: Now): Life => {
  const { retryAt, idleAt } = before
  const life = retryAt !== undefined && at >= retryAt ? { ...before, retryAt: undefined } : before
  if (life.phase === "paused" && life.wanted === "asleep") {
    const hasSlept = pausedMs !== undefined && at >= life.pausedAt + pausedMs
    return { ...life, deep: life.deep || hasSlept }
  }
  if (life.phase !== "running") return life
  const isIdle = idleAt !== undefined && at >= idleAt && life.runner !== "busy"
  const present = { ...life, replace: life.replace || mustRotate(life, at) }
  return isIdle && life.wanted === "running"
    ? { ...present, wanted: "asleep", deep: false }
    : present
}

/** A snapshot below the minimum version is not restored: it would bring an old runtime back. */
const withSupportedSnapshot = (life: Life, { minimumVersion }: Now): Change => {
  const isNext = life.phase === "absent" && !life.pending && life.wanted === "running"
  return !isNext || !life.snapshot || isAtLeast(life.snapshot.version, minimumVersion)
    ? [life]
    : [{ ...life, snapshot: undefined }, notes.snapshotTooOld]
}

const LEAVING: ReadonlySet<Call["do"]> = new Set(["pause", "prepare", "snapshot", "terminate"])

/** It was asked to sleep and has not begun to: its runner gets the prompts first. */
const runsPromptsFirst = (life: Life): boolean =>
  life.wanted === "asleep" &&
  life.phase === "running" &&
  isLinked(life) &&
  life.hook?.holds !== true &&
  !life.replace &&
  !(life.pending && LEAVING.has(life.pending.call.do))

const want = (life: Life, event: On<"want">, { can, at, idleMs }: Now): Life => {
  if (life.wanted === "ended") return life
  const { wanted } = event
  const idleAt = at + idleMs
  if (event.forPrompts === true && runsPromptsFirst(life))
    return life.runner === "busy" ? life : { ...life, idleAt }
  if (wanted === "asleep")
    return { ...life, wanted, deep: event.deep === true || life.deep === true }
  if (wanted === "ended") return { ...life, wanted, deep: undefined }
  // A caller waits: the attempts begin anew.
  const again = isGivenUp(life) ? { ...life, failures: 0, retryAt: undefined } : life
  // Nothing is heard of the runner of such a sandbox: from now on it may work, also while a snapshot is made.
  const awake = can.startsRunner ? again : worked(again)
  return { ...awake, wanted, deep: undefined, idleAt }
}

/** The call may have been carried out. Its answer will not come, or come late. */
const lost = (life: Life, call: Call, at: number): Life => {
  // A create is in doubt by that.
  if (life.ref === undefined) return life
  const unsure = { ...life, unsure: true }
  if (call.do === "snapshot" || call.do === "release") return unprepared(unsure)
  // The hook may have run, and the runner may have woken up since.
  return call.do === "prepare"
    ? { ...unsure, hook: { at, holds: life.hook?.holds === true } }
    : unsure
}

const apply = (life: Life, event: LifeEvent, now: Now): Change => {
  switch (event.type) {
    case "want":
      return [want(life, event, now)]
    case "answer": {
      const { call, answer } = event
      if (event.number !== life.pending?.number) return [answeredLate(life, call, answer, now)]
      const free = { ...life, pending: undefined, retryAt: undefined }
      // A call that succeeds before each failure of another one does not make the delays of that one short again.
      const isLook = ["probe", "find", "prepare"].includes(call.do)
      const isSettled = !isLook && (answer.is === "ok" || answer.is === "missing")
      const known = isSettled ? { ...free, attempts: 0 } : free
      return answered(known, call, answer, life.pending.dirty, now)
    }
    case "lost": {
      if (event.number !== life.pending?.number) return [life]
      return [lost({ ...life, pending: undefined }, life.pending.call, now.at)]
    }
    case "runner":
      return [runnerChanged(life, event, now)]
    case "seen":
      return [seen(life, event.found)]
    case "due":
      return [life]
  }
}

const withoutSuccessor = (before: Life, life: Life, { hasSuccessors }: Now): Life => {
  const isGone = before.ref !== undefined && life.ref === undefined
  return hasSuccessors === false && isGone && life.wanted === "running"
    ? { ...life, wanted: "asleep", deep: false }
    : life
}

const issue = (life: Life, call: Call, at: number): Life => {
  const number = life.number + 1
  const asked = { ...life, number, pending: { number, call, since: at, dirty: false } }
  if (call.do !== "create") return asked
  const { generation } = call
  return enter({ ...asked, generation }, "creating", { runner: "away", work: "none" })
}

const isOver = (life: Life): boolean =>
  life.wanted === "ended" && life.phase === "absent" && !life.pending && life.doomed.length === 0

export const step = (
  before: Life,
  event: LifeEvent,
  policy: LifePolicy,
): readonly [Life, readonly LifeEffect[]] => {
  const now = { ...policy, at: event.at }
  const [changed, ...told] = apply(before, event, now)
  const present = atTime(withoutSuccessor(before, changed, now), now)
  const [life, ...alsoTold] = withSupportedSnapshot(present, now)
  const said = [...told, ...alsoTold].map((text) => ({ do: "note", text }) as const)
  const call = nextCall(life, now)
  if (!call) return [isOver(life) ? enter(life, "ended", {}) : life, said]
  const asked = issue(life, call, event.at)
  return [asked, [...said, { do: "call", number: asked.number, call }]]
}

/** When the machine wants a `due` event. Undefined: only another event changes anything. */
export const dueAt = (life: Life, policy: LifePolicy, at: number): number | undefined => {
  if (life.pending) return undefined
  const { retryAt, bootBy, lookAt, idleAt, pausedAt, wanted } = life
  const pausedUntil =
    policy.pausedMs === undefined || pausedAt === undefined || wanted !== "asleep"
      ? undefined
      : pausedAt + policy.pausedMs
  const times = [retryAt, bootBy, lookAt, idleAt, ...rotateTimes(life), pausedUntil]
  // Times that have passed were handled by the last step.
  const coming = times.filter((time) => time !== undefined && time > at) as readonly number[]
  return coming.length === 0 ? undefined : Math.min(...coming)
}
