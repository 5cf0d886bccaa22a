/**
 * The machine of one sandbox's life: `step(life, event) -> [life, effects]`. It records before it creates, looks before it
 * creates again, and an answer in doubt destroys nothing.
 */
import type { SandboxInfo } from "../providers/contract.ts"
import type { Call, Life, LifeEffect, LifeEvent, LifePolicy } from "./life.ts"
import { answered, answeredLate } from "./life-answers.ts"
import { type Change, doom, isAlive, isOurs, only, withoutSandbox } from "./life-change.ts"
import { mustRotate, nextCall, rotateTimes } from "./life-next.ts"
import { notes } from "./life-notes.ts"
import { isAtLeast } from "./version-key.ts"

const runnerChanged = (
  before: Life,
  event: LifeEvent & { type: "runner" },
  policy: LifePolicy,
): Life => {
  const { linked, busy, waits, at } = event
  const life = waits === undefined ? before : { ...before, waits }
  if (event.generation !== life.generation || life.phase === "ended") return life
  const used = linked && event.usedAt !== undefined && event.usedAt !== life.usedAt
  const worked = busy || used || (linked && !life.touched)
  // People keep a sandbox awake, but not one that was asked to sleep.
  const staysAwake = life.busy || life.idleAt === undefined || (used && life.wanted === "running")
  const known: Life = {
    ...life,
    linked,
    busy: linked && busy,
    ...(used && { usedAt: event.usedAt }),
    touched: life.touched || used || (linked && (busy || life.ref !== undefined)),
    // A create that was given up has made a sandbox after all.
    doubt: life.doubt || (linked && life.ref === undefined && life.pending?.call.do !== "create"),
    ...(worked && { saved: false, prepared: false }),
    ...(worked && life.pending && { pending: { ...life.pending, dirty: true } }),
    idleAt: busy ? undefined : staysAwake ? at + policy.idleMs : life.idleAt,
  }
  if (linked && life.phase === "booting")
    return {
      ...known,
      phase: "running",
      bootBy: undefined,
      lookAt: undefined,
      unlinkedAt: undefined,
      // A runner that connects after all does not need to be replaced.
      replace: life.replace && mustRotate(life, at),
      failures: 0,
      attempts: 0,
      failed: false,
      lastError: undefined,
    }
  if (!linked && life.phase === "running" && policy.can.startsRunner)
    return { ...known, phase: "booting", bootBy: at + policy.relinkMs, unlinkedAt: at }
  return known
}

/** The sweep saw these sandboxes. A call under way may explain any difference, so the sweep waits for it. */
const seen = (life: Life, found: readonly SandboxInfo[]): Life => {
  if (life.pending !== undefined || life.doubt) return life
  const ours = found.filter((info) => isAlive(info) && isOurs(life, info))
  // A create that was given up has made a sandbox after all: a look adopts it.
  const isNew = (info: SandboxInfo) =>
    info.generation === life.generation && !life.doomed.includes(info.ref)
  if (life.wanted !== "ended" && life.ref === undefined && ours.some(isNew))
    return { ...life, doubt: true }
  const strays = doom(
    life,
    ours.map(({ ref }) => ref),
  )
  const own = found.find(({ ref }) => ref === life.ref)
  const differs =
    own === undefined ||
    (life.phase !== "paused") !== (own.state === "running" || own.state === "starting")
  return life.ref !== undefined && differs ? { ...strays, unsure: true } : strays
}

/** What the time alone changes: an idle sandbox sleeps, one that slept long is saved, one that expires is replaced. */
const atTime = (life: Life, policy: LifePolicy, at: number): Life => {
  if (life.phase === "ended") return life
  const idle = life.idleAt !== undefined && at >= life.idleAt && !life.busy
  const slept =
    policy.pausedMs !== undefined &&
    life.pausedAt !== undefined &&
    at >= life.pausedAt + policy.pausedMs
  return {
    ...life,
    ...(life.retryAt !== undefined && at >= life.retryAt && { retryAt: undefined }),
    ...(idle && life.phase === "running" && life.wanted === "running" && { wanted: "asleep" }),
    ...(slept && life.phase === "paused" && life.wanted === "asleep" && { deep: true }),
    ...(life.phase === "running" && mustRotate(life, at) && { replace: true }),
  }
}

/** A snapshot below the minimum version is not restored: it would bring an old runtime back. */
const withSupportedSnapshot = (life: Life, policy: LifePolicy): Change => {
  if (life.ref !== undefined || life.pending || life.doubt || life.wanted !== "running")
    return only(life)
  return !life.snapshot || isAtLeast(life.snapshot.version, policy.minimumVersion)
    ? only(life)
    : { life: { ...life, snapshot: undefined }, notes: [notes.snapshotTooOld] }
}

const LEAVING: ReadonlySet<Call["do"]> = new Set(["pause", "prepare", "snapshot", "terminate"])

/** It was asked to sleep and has not begun to: its runner gets the prompts first. */
const runsPromptsFirst = ({ wanted, phase, linked, prepared, replace, pending }: Life): boolean =>
  wanted === "asleep" &&
  phase === "running" &&
  linked &&
  !prepared &&
  !replace &&
  !(pending && LEAVING.has(pending.call.do))

/** Nothing is heard of the runner of such a sandbox: from now on it may work, also while a snapshot is made. */
const mayWorkUnheard = ({ pending }: Life): Partial<Life> => ({
  saved: false,
  ...(pending && { pending: { ...pending, dirty: true } }),
})

const want = (life: Life, event: LifeEvent & { type: "want" }, policy: LifePolicy): Life => {
  if (life.wanted === "ended") return life
  const { wanted, at } = event
  if (event.forPrompts === true && runsPromptsFirst(life))
    return { ...life, ...(!life.busy && { idleAt: at + policy.idleMs }) }
  // A caller waits: the attempts begin anew.
  const again = wanted === "running" &&
    life.failed && { failed: false, failures: 0, retryAt: undefined }
  return {
    ...life,
    wanted,
    deep: wanted === "asleep" && (event.deep === true || (life.deep && life.wanted === "asleep")),
    ...again,
    ...(wanted === "running" && { idleAt: at + policy.idleMs }),
    ...(wanted === "running" && !policy.can.startsRunner && mayWorkUnheard(life)),
  }
}

const apply = (life: Life, event: LifeEvent, policy: LifePolicy): Change => {
  const { at } = event
  switch (event.type) {
    case "want":
      return only(want(life, event, policy))
    case "answer": {
      if (event.number !== life.pending?.number)
        return only(answeredLate(life, event.call, event.answer, policy, at))
      const { dirty } = life.pending
      const free = { ...life, pending: undefined, retryAt: undefined }
      // A call that succeeds before each failure of another one does not make the delays of that one short again.
      const isLook = ["probe", "find", "prepare"].includes(event.call.do)
      const settled = event.answer.is === "ok" || event.answer.is === "missing"
      return answered(
        settled && !isLook ? { ...free, attempts: 0 } : free,
        event.call,
        event.answer,
        dirty,
        policy,
        at,
      )
    }
    case "lost": {
      if (event.number !== life.pending?.number) return only(life)
      const { call } = life.pending
      const create = call.do === "create"
      return only({
        ...life,
        pending: undefined,
        // The hook may have run, and the runner may have woken up since.
        ...(call.do === "prepare" && { preparedAt: at }),
        prepared: life.prepared && call.do !== "snapshot" && call.do !== "release",
        doubt: life.doubt || create,
        unsure: life.unsure || (!create && life.ref !== undefined),
      })
    }
    case "runner":
      return only(runnerChanged(life, event, policy))
    case "seen":
      return only(seen(life, event.found))
    case "due":
      return only(life)
  }
}

const withoutSuccessor = (before: Life, life: Life, policy: LifePolicy): Life => {
  const isGone = before.ref !== undefined && life.ref === undefined
  return policy.hasSuccessors === false && isGone && life.wanted === "running"
    ? { ...life, wanted: "asleep" }
    : life
}

const issue = (life: Life, call: Call, at: number): Life => {
  const number = life.number + 1
  const pending = { number, call, since: at, dirty: false }
  if (call.do !== "create") return { ...life, number, pending }
  return { ...withoutSandbox(life), number, pending, generation: call.generation }
}

export const step = (
  before: Life,
  event: LifeEvent,
  policy: LifePolicy,
): readonly [Life, readonly LifeEffect[]] => {
  const { at } = event
  const changed = apply(before, event, policy)
  const present = withoutSuccessor(before, changed.life, policy)
  const checked = withSupportedSnapshot(atTime(present, policy, at), policy)
  const call = nextCall(checked.life, policy, at)
  const life = call ? issue(checked.life, call, at) : checked.life
  const said = [...changed.notes, ...checked.notes].map((text) => ({ do: "note", text }) as const)
  return call
    ? [life, [...said, { do: "call", number: life.number, call }]]
    : [isOver(life) ? { ...life, phase: "ended" } : life, said]
}

const isOver = (life: Life): boolean =>
  life.wanted === "ended" &&
  !life.pending &&
  life.ref === undefined &&
  !life.doubt &&
  life.doomed.length === 0

/** When the machine wants a `due` event. Undefined: only another event changes anything. */
export const dueAt = (life: Life, policy: LifePolicy, at: number): number | undefined => {
  if (life.pending) return undefined
  const pausedUntil =
    policy.pausedMs === undefined || life.pausedAt === undefined || life.wanted !== "asleep"
      ? undefined
      : life.pausedAt + policy.pausedMs
  const { retryAt, bootBy, lookAt, idleAt } = life
  const times = [retryAt, bootBy, lookAt, idleAt, ...rotateTimes(life), pausedUntil]
  // Times that have passed were handled by the last step.
  const coming = times.filter((time) => time !== undefined && time > at) as readonly number[]
  return coming.length === 0 ? undefined : Math.min(...coming)
}
