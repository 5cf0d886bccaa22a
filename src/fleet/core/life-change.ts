/** Small changes of a sandbox's life that several events share. */
import type { SandboxInfo } from "../providers/contract.ts"
import { type Call, type Life, type LifePolicy, noSandbox } from "./life.ts"
import { notes } from "./life-notes.ts"

const MAX_FAILURES = 5
const RETRY_MS = { min: 1000, max: 30_000 }

export interface Change {
  readonly life: Life
  readonly notes: readonly string[]
}

export const only = (life: Life): Change => ({ life, notes: [] })

const retryAfter = (attempts: number): number =>
  Math.min(RETRY_MS.max, RETRY_MS.min * 2 ** Math.min(attempts, 10))

/** The sandbox does not exist any more. What was in it is lost unless it was saved. */
export const withoutSandbox = (life: Life): Life => ({
  ...life,
  ...noSandbox,
  ref: undefined,
  expiresAt: undefined,
  bootBy: undefined,
  lookAt: undefined,
  pausedAt: undefined,
  unlinkedAt: undefined,
  preparedAt: undefined,
  hookFailures: undefined,
})

export const gone = (life: Life, { hasFiles = true }: LifePolicy): Change => {
  const lost = hasFiles && life.touched && !life.saved && life.wanted !== "ended"
  const note = life.snapshot ? notes.workSetBack : notes.workLost
  return { life: withoutSandbox(life), notes: lost ? [note] : [] }
}

export const failedOnce = (life: Life, why: string, at: number): Change => {
  const failures = life.failures + 1
  const failed = failures >= MAX_FAILURES
  return {
    life: { ...life, failures, failed, lastError: why, retryAt: at + retryAfter(failures) },
    notes: failed && life.wanted === "running" ? [notes.failed(why)] : [],
  }
}

const NO_SNAPSHOT = "the snapshot does not exist"

/** The answer may be wrong, after a change of the account for example, so the snapshot itself is not deleted. */
export const snapshotMissing = (life: Life, id: string): Life => ({
  ...life,
  snapshot: undefined,
  missingSnapshots: [...new Set([...(life.missingSnapshots ?? []), id])],
})

/** The sandbox is not made: there is nothing to make it from. */
export const withoutSnapshot = (life: Life): Life => ({
  ...life,
  wanted: "asleep",
  lastError: NO_SNAPSHOT,
})

export const lacksSnapshot = ({ wanted, lastError }: Life): boolean =>
  wanted === "asleep" && lastError === NO_SNAPSHOT

export const retryLater = (
  life: Life,
  why: string,
  at: number,
  afterMs: number | undefined,
): Life => ({
  ...life,
  attempts: life.attempts + 1,
  lastError: why,
  retryAt: at + Math.max(afterMs ?? 0, retryAfter(life.attempts)),
})

/** One note when a session has waited for its sandbox for several attempts. The attempts continue. */
export const withDelayNote = (life: Life, call: Call, why: string): Change => ({
  life,
  notes:
    life.wanted === "running" &&
    life.attempts === MAX_FAILURES &&
    (call.do === "create" || call.do === "resume")
      ? [notes.delayed(why)]
      : [],
})

export const booted = (life: Life, policy: LifePolicy, at: number): Life => {
  const runs = life.linked || !policy.can.startsRunner
  return {
    ...life,
    phase: runs ? "running" : "booting",
    bootBy: runs ? undefined : at + policy.bootMs,
    lookAt: undefined,
    unlinkedAt: runs ? undefined : at,
    pausedAt: undefined,
    unsure: false,
    restarted: false,
    ...(runs && { failures: 0, attempts: 0, failed: false, lastError: undefined, touched: true }),
    idleAt: at + policy.idleMs,
  }
}

export const adopt = (life: Life, info: SandboxInfo, policy: LifePolicy, at: number): Life => {
  const own = { ...life, ref: info.ref, expiresAt: info.expiresAt, doubt: false }
  return info.state === "paused" || info.state === "stopped"
    ? { ...own, phase: "paused", pausedAt: at, unsure: false }
    : lookedAgain(booted(own, policy, at), info, at)
}

const LOOK_AGAIN_MS = 5000

/** A sandbox that is still being made is looked at until the provider says what became of it. */
export const lookedAgain = (life: Life, { state }: SandboxInfo, at: number): Life => ({
  ...life,
  lookAt: state === "starting" && life.phase === "booting" ? at + LOOK_AGAIN_MS : undefined,
})

export const isAlive = ({ state }: SandboxInfo): boolean => state !== "dead"
export const isOurs = (life: Life, { generation }: SandboxInfo): boolean =>
  generation !== undefined && generation <= life.generation

export const doom = (life: Life, refs: readonly string[]): Life => ({
  ...life,
  doomed: [...new Set([...life.doomed, ...refs.filter((ref) => ref !== life.ref)])],
})
