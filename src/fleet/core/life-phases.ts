/** The transitions between the phases of a sandbox's life, and changes that several events share. */
import type { SandboxInfo } from "../providers/contract.ts"
import { isGivenUp, isLinked, isTouched, MAX_FAILURES, phases } from "./life.ts"
import type { Call, FactsOf, In, Life, LifePolicy, Made, Phase, Unmade } from "./life.ts"
import { notes } from "./life-notes.ts"

/** The life after an event, and texts for the conversation. */
export type Change = readonly [life: Life, ...notes: readonly string[]]

/** What an event meets. */
export interface Now extends LifePolicy {
  readonly at: number
}

const factNames: ReadonlySet<string> = new Set(Object.values(phases).flat())

/** Everything that is known, without the facts that are not true in this phase. */
export const inPhase = <P extends Phase>(phase: P, known: object): In<P> => {
  const kept: readonly string[] = phases[phase]
  const isTrue = ([name, value]: readonly [string, unknown]) =>
    value !== undefined && (!factNames.has(name) || kept.includes(name))
  return Object.fromEntries(Object.entries({ ...known, phase }).filter(isTrue)) as In<P>
}

/** `more`: at least those facts of the new phase that are not true in the present one. */
export const enter = <L extends Life, P extends Phase>(
  life: L,
  phase: P,
  more: Omit<FactsOf<P>, keyof FactsOf<L["phase"]>> & Partial<FactsOf<P>>,
): In<P> => inPhase(phase, { ...life, ...more })

/** The sandbox runs, and its runner has no connection. */
export const booting = (life: Made, ms: number, at: number): In<"booting"> =>
  enter(life, "booting", { bootBy: at + ms, lookAt: undefined, unlinkedAt: at })

/** The runner is connected, or the fleet never hears of it. */
export const running = (life: Made, runner: FactsOf<"running">["runner"]): In<"running"> => {
  const work = life.work === "none" ? "unsaved" : life.work
  const begun = { ...life, failures: 0, attempts: 0, lastError: undefined }
  return enter(begun, "running", { runner, work })
}

export const paused = (life: Made, at: number): In<"paused"> =>
  enter(life, "paused", { runner: life.runner ?? "away", pausedAt: life.pausedAt ?? at })

/** It was made or resumed. */
export const booted = (life: Made, { can, at, idleMs, bootMs }: Now): In<"booting" | "running"> => {
  const up = { ...life, unsure: false, restarted: false, idleAt: at + idleMs }
  return isLinked(life) || !can.startsRunner
    ? running(up, life.runner ?? "away")
    : booting(up, bootMs, at)
}

const LOOK_AGAIN_MS = 5000

type Found = Pick<SandboxInfo, "ref" | "expiresAt" | "state">

/** A sandbox that is still being made is looked at until the provider says what became of it. */
export const lookedAgain = <L extends Life>(life: L, { state }: Pick<Found, "state">, at: number) =>
  life.phase === "booting"
    ? { ...life, lookAt: state === "starting" ? at + LOOK_AGAIN_MS : undefined }
    : life

export const isPaused = ({ state }: Pick<Found, "state">): boolean =>
  state === "paused" || state === "stopped"

const newlyMade = { unsure: false, twin: false, replace: false, restarted: false } as const

/** The sandbox of this generation is known now. */
export const adopted = (life: Unmade, found: Found, now: Now): Made => {
  const { ref, expiresAt } = found
  const { runner = "away", work = "none" } = life
  const facts = { ...newlyMade, ref, expiresAt, runner, work, pausedAt: now.at }
  const own = enter(life, "paused", facts)
  return isPaused(found) ? own : lookedAgain(booted(own, now), found, now.at)
}

export const gone = (life: Life, { hasFiles = true }: LifePolicy): Change => {
  const isLost = hasFiles && isTouched(life) && life.work !== "saved" && life.wanted !== "ended"
  const note = life.snapshot ? notes.workSetBack : notes.workLost
  return [enter(life, "absent", {}), ...(isLost ? [note] : [])]
}

const RETRY_MS = { min: 1000, max: 30_000 }

const retryAfter = (attempts: number): number =>
  Math.min(RETRY_MS.max, RETRY_MS.min * 2 ** Math.min(attempts, 10))

export const failedOnce = (life: Life, why: string, at: number): Change => {
  const failures = life.failures + 1
  const failed = { ...life, failures, lastError: why, retryAt: at + retryAfter(failures) }
  const isTold = isGivenUp(failed) && life.wanted === "running"
  return [failed, ...(isTold ? [notes.failed(why)] : [])]
}

export const retryLater = <L extends Life>(life: L, why: string, at: number, afterMs = 0): L => ({
  ...life,
  attempts: life.attempts + 1,
  lastError: why,
  retryAt: at + Math.max(afterMs, retryAfter(life.attempts)),
})

/** One note when a session has waited for its sandbox for several attempts. The attempts continue. */
export const withDelayNote = (life: Life, call: Call, why: string): Change => {
  const isWaitedFor = life.wanted === "running" && (call.do === "create" || call.do === "resume")
  const isTold = isWaitedFor && life.attempts === MAX_FAILURES
  return [life, ...(isTold ? [notes.delayed(why)] : [])]
}

/** The hook before a snapshot has to run again. */
export const unprepared = <L extends Life>(life: L): L =>
  life.hook ? { ...life, hook: { ...life.hook, holds: false } } : life

/** There may be new work: it is not in a snapshot that was made, nor in one that is being made. */
export const worked = <L extends Life>(life: L): L => ({
  ...life,
  ...(life.work === "saved" && { work: "unsaved" }),
  ...(life.pending && { pending: { ...life.pending, dirty: true } }),
})

export const doom = <L extends Life>(life: L, refs: readonly string[]): L => ({
  ...life,
  doomed: [...new Set([...life.doomed, ...refs.filter((ref) => ref !== life.ref)])],
})

/** Those that exist and were made for this session up to its present generation. */
export const ownOf = (life: Life, found: readonly SandboxInfo[]): readonly SandboxInfo[] =>
  found.filter(
    ({ state, generation }) =>
      state !== "dead" && generation !== undefined && generation <= life.generation,
  )
