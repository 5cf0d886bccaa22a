/** What the answer of a provider's call changes in a sandbox's life. */
import type { SandboxInfo } from "../providers/contract.ts"
import { isInDoubt, isTouched } from "./life.ts"
import type { Answer, Call, In, Life, Made, RunnerHealth } from "./life.ts"
import { notes } from "./life-notes.ts"
import {
  adopted,
  booted,
  type Change,
  doom,
  enter,
  failedOnce,
  gone,
  isPaused,
  lookedAgain,
  type Now,
  ownOf,
  paused,
  retryLater,
  unprepared,
  withDelayNote,
} from "./life-phases.ts"

type Value = Extract<Answer, { is: "ok" }>["value"]
type Failure = Exclude<Answer, { is: "ok" | "missing" }>

/** The oldest sandbox of the current generation is adopted; all others are strays. */
const afterFind = (life: Life, { found = [] }: Value, now: Now): Change => {
  const own = ownOf(life, found)
  const refs = own.map(({ ref }) => ref)
  if (life.ref !== undefined) return [doom({ ...life, twin: false }, refs)]
  const [oldest] = own
    .filter(({ generation, ref }) => generation === life.generation && !life.doomed.includes(ref))
    .toSorted((a, b) => (a.createdAt ?? 0) - (b.createdAt ?? 0) || (a.ref < b.ref ? -1 : 1))
  // If there is none and a runner had connected, the sandbox existed and is gone.
  return oldest ? [doom(adopted(life, oldest, now), refs)] : gone(doom(life, refs), now)
}

/** A runner that answers connects again by itself. One that cannot for so long is restarted all the same. */
const UNLINKED_MS = 10 * 60_000

const afterProbe = (life: Made, info: SandboxInfo, health: RunnerHealth, now: Now): Change => {
  const { at } = now
  if (info.state === "dead") return gone(life, now)
  const seen = { ...life, unsure: false, expiresAt: info.expiresAt ?? life.expiresAt }
  // What was found out about its runner was before the pause.
  if (isPaused(info)) return [paused({ ...seen, replace: false }, at)]
  if (seen.phase === "paused") return [booted(seen, now)]
  if (seen.phase === "running") return [seen]
  const known = seen.lookAt === undefined ? seen : lookedAgain(seen, info, at)
  if (at < known.bootBy) return [known]
  if (life.wanted !== "running") return [{ ...known, bootBy: at + now.bootMs }]
  const until = known.unlinkedAt + UNLINKED_MS
  if (isTouched(life) && health !== "none" && at < until)
    return [{ ...known, bootBy: Math.min(at + now.relinkMs, until) }]
  // The provider says that it runs, but its runner is down.
  return failedOnce({ ...known, replace: true }, "the runner did not connect in time", at)
}

const NO_SNAPSHOT = "the snapshot does not exist"

/** The sandbox is not made: there is nothing to make it from. */
export const lacksSnapshot = ({ wanted, lastError }: Life): boolean =>
  wanted !== "running" && lastError === NO_SNAPSHOT

/** The answer may be wrong, after a change of the account for example, so the snapshot itself is not deleted. */
const afterMissing = (
  life: In<"absent">,
  id: string | undefined,
  { hasSuccessors, at }: Now,
): Change => {
  if (id === undefined) return failedOnce(life, "the image does not exist", at)
  const missingSnapshots = [...new Set([...(life.missingSnapshots ?? []), id])]
  const known = { ...life, snapshot: undefined, missingSnapshots }
  if (hasSuccessors === false) {
    const lacking = { ...known, lastError: NO_SNAPSHOT }
    // Who asked for this snapshot decides what comes next: an empty sandbox would pass for the restored one.
    return [lacking.wanted === "running" ? { ...lacking, wanted: "asleep", deep: false } : lacking]
  }
  const [failed, ...told] = failedOnce(known, "its snapshot does not exist", at)
  return [failed, notes.snapshotMissing, ...told]
}

const afterCreate = (
  life: In<"creating">,
  call: Call & { do: "create" },
  answer: Answer,
  now: Now,
): Change => {
  const { can, at } = now
  if (answer.is === "ok" && answer.value.ref !== undefined) {
    const { ref, expiresAt } = answer.value
    const own = adopted(life, { ref, expiresAt, state: "running" }, now)
    // A retry below the provider's API may have made a second one: only a look finds it.
    return [{ ...own, twin: !can.uniqueNames }]
  }
  if (answer.is === "ok" || answer.is === "unknown") {
    const unnamed = { why: "the provider named no sandbox", afterMs: undefined }
    const { why, afterMs } = answer.is === "ok" ? unnamed : answer
    return withDelayNote(retryLater(life, why, at, afterMs), call, why)
  }
  const none = enter(life, "absent", {})
  if (answer.is === "missing") return afterMissing(none, call.snapshot, now)
  if (answer.is === "refused") return failedOnce(none, answer.why, at)
  return [{ ...none, lastError: answer.why, retryAt: at + answer.afterMs }]
}

const afterSnapshot = (life: Made, value: Value, dirty: boolean, { can, at }: Now): Life => {
  const { snapshot } = value
  if (!snapshot) return life
  const kept = { ...(dirty ? unprepared(life) : life), snapshot }
  if (can.snapshot === "stop") return enter(kept, "absent", {})
  const work = life.runner === "busy" ? "rescued" : dirty ? "unsaved" : "saved"
  const saved = { ...kept, work } as const
  return value.isPaused === true || can.snapshot === "pause" ? paused(saved, at) : saved
}

const MAX_HOOK_FAILURES = 3
const MAX_RELEASES = 5

/** The hook may have run. A sandbox whose hook fails again and again is saved without it. */
const afterFailedHook = (life: Made, at: number): Life => {
  const hookFailures = (life.hookFailures ?? 0) + 1
  const holds = hookFailures >= MAX_HOOK_FAILURES
  return { ...life, hook: { at, holds }, hookFailures: holds ? undefined : hookFailures }
}

/** A call on the present sandbox was not carried out, or nobody knows. */
const afterFailure = (life: Made, call: Call, answer: Failure, at: number): Change => {
  switch (call.do) {
    case "probe":
      return [life]
    case "prepare":
      return [afterFailedHook(life, at)]
    case "restart":
      return [{ ...life, restarted: true }]
    case "release":
      // It is tried again, since the runner sleeps for long. At last the runner wakes up by itself.
      return [life.attempts < MAX_RELEASES ? unprepared(life) : { ...life, hook: undefined }]
    default: {
      // The runner may have woken up meanwhile, and then its secrets are on the disk.
      const known = { ...(call.do === "snapshot" ? unprepared(life) : life), unsure: true }
      // The keeper itself says in the conversation why it has not made a call.
      if (answer.is === "blocked") return [known]
      return answer.is === "refused" && call.do === "resume"
        ? failedOnce(known, answer.why, at)
        : withDelayNote(known, call, answer.why)
    }
  }
}

/** A call on the present sandbox was carried out. */
const afterSuccess = (life: Made, call: Call, value: Value, dirty: boolean, now: Now): Change => {
  const { at } = now
  switch (call.do) {
    case "probe":
      return value.info ? afterProbe(life, value.info, value.health ?? "none", now) : [life]
    case "pause":
      return [paused({ ...life, replace: false }, at)]
    case "resume":
      return [booted({ ...life, expiresAt: value.expiresAt ?? life.expiresAt }, now)]
    case "prepare":
      return [{ ...life, hook: { at, holds: !dirty }, hookFailures: undefined }]
    case "snapshot":
      return [afterSnapshot(life, value, dirty, now)]
    case "release":
      return [{ ...life, hook: undefined }]
    case "restart": {
      const known = { ...life, restarted: true, replace: false, hook: undefined }
      // It may have connected while the call was under way.
      if (known.phase !== "booting") return [known]
      return [{ ...known, bootBy: at + now.relinkMs, unlinkedAt: at }]
    }
    // The runner may have connected and worked while the sandbox was being ended.
    default:
      return gone(life, now)
  }
}

export const answered = (
  life: Life,
  call: Call,
  answer: Answer,
  dirty: boolean,
  now: Now,
): Change => {
  if (call.do === "create")
    return life.phase === "creating" ? afterCreate(life, call, answer, now) : [life]
  if (answer.is !== "ok" && answer.is !== "missing") {
    const afterMs = answer.is === "refused" ? undefined : answer.afterMs
    const later = retryLater(life, answer.why, now.at, afterMs)
    const isCurrent = "ref" in call && later.ref !== undefined && later.ref === call.ref
    return isCurrent ? afterFailure(later, call, answer, now.at) : [later]
  }
  const value = answer.is === "ok" ? answer.value : {}
  if (call.do === "find") return afterFind(life, value, now)
  if (life.ref === undefined || life.ref !== call.ref)
    return [{ ...life, doomed: life.doomed.filter((ref) => ref !== call.ref) }]
  if (answer.is === "missing") return gone(life, now)
  return afterSuccess(life, call, value, dirty, now)
}

/** The answer of a call that was given up. What it created is adopted if a look is still due, and otherwise a stray. */
export const answeredLate = (life: Life, call: Call, answer: Answer, now: Now): Life => {
  if (call.do !== "create" || answer.is !== "ok") return life
  const { ref, expiresAt } = answer.value
  if (ref === undefined || ref === life.ref || life.doomed.includes(ref)) return life
  const isAwaited = life.phase === "creating" && isInDoubt(life)
  // The look is still to come: it may find a second one.
  return isAwaited && call.generation === life.generation
    ? { ...adopted(life, { ref, expiresAt, state: "running" }, now), twin: true }
    : doom(life, [ref])
}
