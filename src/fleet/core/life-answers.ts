/** What the answer of a provider's call changes in a sandbox's life. */
import type { SandboxInfo } from "../providers/contract.ts"
import type { Answer, Call, Life, LifePolicy, RunnerHealth } from "./life.ts"
import {
  adopt,
  booted,
  type Change,
  doom,
  failedOnce,
  gone,
  isAlive,
  isOurs,
  lookedAgain,
  only,
  retryLater,
  snapshotMissing,
  withDelayNote,
  withoutSandbox,
  withoutSnapshot,
} from "./life-change.ts"
import { notes } from "./life-notes.ts"

/** The oldest sandbox of the current generation is adopted; all others are strays. */
const afterFind = (
  life: Life,
  found: readonly SandboxInfo[],
  policy: LifePolicy,
  at: number,
): Change => {
  const ours = found.filter((info) => isAlive(info) && isOurs(life, info))
  const [oldest] = ours
    .filter(({ generation, ref }) => generation === life.generation && !life.doomed.includes(ref))
    .toSorted((a, b) => (a.createdAt ?? 0) - (b.createdAt ?? 0) || (a.ref < b.ref ? -1 : 1))
  const known = { ...life, doubt: false }
  const adopted = oldest && known.ref === undefined ? adopt(known, oldest, policy, at) : known
  const sorted = doom(
    adopted,
    ours.map(({ ref }) => ref),
  )
  // A runner had connected, so the sandbox existed and is gone.
  return sorted.ref === undefined ? gone(sorted, policy) : only(sorted)
}

/** A runner that answers connects again by itself. One that cannot for so long is restarted all the same. */
const UNLINKED_MS = 10 * 60_000

/** When to look again at a sandbox that is let alone although its runner has no connection. Undefined: its runner is down. */
const lookAgainAt = (
  { touched, unlinkedAt = 0 }: Life,
  health: RunnerHealth,
  { relinkMs }: LifePolicy,
  at: number,
): number | undefined => {
  const until = unlinkedAt + UNLINKED_MS
  return touched && health !== "none" && at < until ? Math.min(at + relinkMs, until) : undefined
}

const afterProbe = (
  life: Life,
  info: SandboxInfo,
  health: RunnerHealth,
  policy: LifePolicy,
  at: number,
): Change => {
  if (info.state === "dead") return gone(life, policy)
  const seen = { ...life, unsure: false, expiresAt: info.expiresAt ?? life.expiresAt }
  const known = life.lookAt === undefined ? seen : lookedAgain(seen, info, at)
  if (info.state === "paused" || info.state === "stopped")
    // What was found out about its runner was before the pause.
    return only({ ...known, phase: "paused", pausedAt: life.pausedAt ?? at, replace: false })
  if (life.phase === "paused") return only(booted(known, policy, at))
  const overdue = life.phase === "booting" && life.bootBy !== undefined && at >= life.bootBy
  if (!overdue) return only(known)
  if (life.wanted !== "running") return only({ ...known, bootBy: at + policy.bootMs })
  const againAt = lookAgainAt(life, health, policy, at)
  if (againAt !== undefined) return only({ ...known, bootBy: againAt })
  // The provider says that it runs, but its runner has not connected in time.
  return failedOnce({ ...known, replace: true }, "the runner did not connect in time", at)
}

const afterCreate = (
  life: Life,
  call: Call & { do: "create" },
  answer: Answer,
  policy: LifePolicy,
  at: number,
): Change => {
  if (answer.is === "ok" && answer.value.ref !== undefined) {
    const own = { ...life, ref: answer.value.ref, expiresAt: answer.value.expiresAt }
    // A retry below the provider's API may have made a second one: only a look finds it.
    return only({ ...booted(own, policy, at), doubt: !policy.can.uniqueNames })
  }
  if (answer.is === "missing") {
    const { snapshot } = call
    if (snapshot === undefined) return failedOnce(life, "the image does not exist", at)
    const known = snapshotMissing(life, snapshot)
    // Who asked for this snapshot decides what comes next: an empty sandbox would pass for the restored one.
    if (policy.hasSuccessors === false) return only(withoutSnapshot(known))
    const failed = failedOnce(known, "its snapshot does not exist", at)
    return { life: failed.life, notes: [notes.snapshotMissing, ...failed.notes] }
  }
  if (answer.is === "refused") return failedOnce(life, answer.why, at)
  if (answer.is === "blocked")
    return only({ ...life, lastError: answer.why, retryAt: at + answer.afterMs })
  const { why, afterMs } =
    answer.is === "unknown"
      ? { why: answer.why, afterMs: answer.afterMs }
      : { why: "the provider named no sandbox", afterMs: undefined }
  return withDelayNote({ ...retryLater(life, why, at, afterMs), doubt: true }, call, why)
}

const afterSnapshot = (
  life: Life,
  made: { readonly id: string; readonly version?: string },
  isPaused: boolean,
  dirty: boolean,
  policy: LifePolicy,
  at: number,
): Life => {
  const kept = { ...life, snapshot: made, prepared: life.prepared && !dirty }
  if (policy.can.snapshot === "stop") return withoutSandbox(kept)
  const saved = { ...kept, saved: !dirty && !life.busy, rescued: life.busy }
  return isPaused || policy.can.snapshot === "pause"
    ? { ...saved, phase: "paused", pausedAt: at, bootBy: undefined }
    : saved
}

const MAX_HOOK_FAILURES = 3
const MAX_RELEASES = 5

/** The hook may have run. A sandbox whose hook fails again and again is saved without it. */
const afterFailedHook = (life: Life, at: number): Life => {
  const hookFailures = (life.hookFailures ?? 0) + 1
  const prepared = hookFailures >= MAX_HOOK_FAILURES
  return { ...life, prepared, preparedAt: at, hookFailures: prepared ? undefined : hookFailures }
}

/** It is tried again, since the runner sleeps for long. At last the runner wakes up by itself. */
const afterFailedRelease = (life: Life): Life => ({
  ...life,
  preparedAt: life.attempts < MAX_RELEASES ? life.preparedAt : undefined,
})

export const answered = (
  life: Life,
  call: Call,
  answer: Answer,
  dirty: boolean,
  policy: LifePolicy,
  at: number,
): Change => {
  if (call.do === "create") return afterCreate(life, call, answer, policy, at)
  if (answer.is === "unknown" || answer.is === "blocked" || answer.is === "refused") {
    const changesState = ["pause", "resume", "terminate", "snapshot"].includes(call.do)
    const isCurrent = "ref" in call && call.ref === life.ref
    const later = retryLater(
      life,
      answer.why,
      at,
      answer.is === "refused" ? undefined : answer.afterMs,
    )
    const known = {
      ...later,
      unsure: life.unsure || (changesState && isCurrent),
      // The runner may have woken up meanwhile, and then its secrets are on the disk.
      prepared: life.prepared && call.do !== "snapshot" && call.do !== "release",
    }
    if (call.do === "prepare") return only(afterFailedHook(known, at))
    if (call.do === "restart") return only({ ...known, restarted: true })
    if (call.do === "release") return only(afterFailedRelease(known))
    // The keeper itself says in the conversation why it has not made a call.
    if (answer.is === "blocked") return only(known)
    return answer.is === "refused" && call.do === "resume"
      ? failedOnce(known, answer.why, at)
      : withDelayNote(known, call, answer.why)
  }
  const value = answer.is === "ok" ? answer.value : {}
  switch (call.do) {
    case "find":
      return afterFind(life, value.found ?? [], policy, at)
    case "terminate": {
      const rest = { ...life, doomed: life.doomed.filter((ref) => ref !== call.ref) }
      // The runner may have connected and worked while the call was under way.
      return call.ref === life.ref ? gone(rest, policy) : only(rest)
    }
    default:
  }
  if (call.ref !== life.ref) return only(life)
  if (answer.is === "missing") return gone(life, policy)
  switch (call.do) {
    case "probe":
      return value.info
        ? afterProbe(life, value.info, value.health ?? "none", policy, at)
        : only(life)
    case "pause":
      return only({ ...life, phase: "paused", pausedAt: at, bootBy: undefined, replace: false })
    case "resume":
      return only(booted({ ...life, expiresAt: value.expiresAt ?? life.expiresAt }, policy, at))
    case "prepare":
      return only({ ...life, prepared: !dirty, preparedAt: at, hookFailures: undefined })
    case "snapshot":
      return only(
        value.snapshot
          ? afterSnapshot(life, value.snapshot, value.isPaused === true, dirty, policy, at)
          : life,
      )
    case "release":
      return only({ ...life, prepared: false, preparedAt: undefined })
    case "restart":
      return only({
        ...life,
        restarted: true,
        replace: false,
        preparedAt: undefined,
        bootBy: at + policy.relinkMs,
        unlinkedAt: at,
      })
  }
}

/** The answer of a call that was given up. What it created is adopted if a look is still due, and otherwise a stray. */
export const answeredLate = (
  life: Life,
  call: Call,
  answer: Answer,
  policy: LifePolicy,
  at: number,
): Life => {
  if (call.do !== "create" || answer.is !== "ok") return life
  const { ref, expiresAt } = answer.value
  if (ref === undefined || ref === life.ref || life.doomed.includes(ref)) return life
  const awaited = life.doubt || life.pending?.call.do === "find"
  if (awaited && call.generation === life.generation && life.ref === undefined)
    return { ...booted({ ...life, ref, expiresAt }, policy, at), doubt: life.doubt }
  return doom(life, [ref])
}
