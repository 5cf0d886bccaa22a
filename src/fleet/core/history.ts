/**
 * The history of a session's sandboxes: one record for each. The open records of a session are those of the sandboxes that
 * exist: the one of its life, and strays that are not terminated yet. Pure.
 */
import type { SandboxInfo } from "../providers/contract.ts"
import type { Life, LifeEvent } from "./life.ts"

/**
 * `session-ended`: its session has ended. `asleep`: the session sleeps without it. `replaced`: the session continues in
 * another one. `stray`: the session did not use it. `gone`: the provider does not have it any more. `forgotten`: the record
 * of its session was deleted. `unknown`: its end was not seen.
 */
export const whysEnded = [
  "session-ended",
  "asleep",
  "replaced",
  "stray",
  "gone",
  "forgotten",
  "unknown",
] as const
export type WhyEnded = (typeof whysEnded)[number]

export interface SandboxRecord {
  readonly session: string
  readonly generation: number
  /** The sandbox's id at its provider. */
  readonly ref: string
  /** The owner of the session; of a sandbox in the warm pool, the pool. */
  readonly tenant: string
  readonly provider: string
  /** What it was made from: `image:`, `base:` or `snapshot:` and an id. Absent: the answer to its create was lost. */
  readonly image?: string | undefined
  readonly createdAt: number
  readonly endedAt?: number | undefined
  readonly whyEnded?: WhyEnded | undefined
  /** How long it ran for its owner, without the time that it was paused. */
  readonly seconds: number
  /** Until when its seconds are counted. Absent while it does not run. */
  readonly countedAt?: number | undefined
  /** The price of an hour when it was made. */
  readonly costPerHour?: number | undefined
}

/** A step of a session's life. */
export interface LifeStep {
  readonly before: Life
  readonly event?: LifeEvent | undefined
  readonly after: Life
}

/** Whose sandboxes the records are about. */
export type RecordOwner = Pick<SandboxRecord, "session" | "tenant" | "provider" | "costPerHour">

/**
 * Running sandboxes are counted every minute. After a longer pause either no replica has counted or the clock was set, so
 * the time is not guessed.
 */
const LONGEST_COUNT_MS = 15 * 60_000

export const isOpen = ({ endedAt }: SandboxRecord): boolean => endedAt === undefined

/** The same record with its seconds until `at`. */
export const counted = (record: SandboxRecord, at: number): SandboxRecord => {
  if (record.countedAt === undefined) return record
  const ms = at - record.countedAt
  const ran = ms >= 0 && ms <= LONGEST_COUNT_MS ? ms / 1000 : 0
  return { ...record, seconds: record.seconds + ran, countedAt: at }
}

export const ended = (record: SandboxRecord, whyEnded: WhyEnded, at: number): SandboxRecord => ({
  ...counted(record, at),
  countedAt: undefined,
  endedAt: Math.max(at, record.createdAt),
  whyEnded,
})

const isSame = (one: SandboxRecord, other: SandboxRecord): boolean =>
  one.generation === other.generation && one.ref === other.ref

/** How many seconds the changed records have more than before. */
export const secondsAdded = (
  known: readonly SandboxRecord[],
  changed: readonly SandboxRecord[],
): number => {
  const before = (record: SandboxRecord) =>
    known.find((one) => isSame(one, record) && one.tenant === record.tenant)?.seconds ?? 0
  return changed.reduce((sum, record) => sum + record.seconds - before(record), 0)
}

export const costOf = ({ seconds, costPerHour }: SandboxRecord): number | undefined =>
  costPerHour === undefined ? undefined : (seconds * costPerHour) / 3600

/** Whether the step changes which sandboxes exist or run. Most steps do not. */
export const changesHistory = ({ before, after }: LifeStep): boolean =>
  before.ref !== after.ref ||
  (before.phase === "paused") !== (after.phase === "paused") ||
  before.doomed.length !== after.doomed.length ||
  before.doomed.some((ref) => !after.doomed.includes(ref))

interface Existing {
  readonly ref: string
  readonly generation: number
  readonly runs: boolean
  readonly createdAt: number
  readonly image?: string | undefined
}

const foundIn = (event: LifeEvent | undefined): readonly SandboxInfo[] => {
  if (event?.type === "seen") return event.found
  return event?.type === "answer" && event.answer.is === "ok"
    ? (event.answer.value.found ?? [])
    : []
}

/** What the event says about a sandbox that was not known before. */
const newlyKnown = (ref: string, { event, after }: LifeStep, at: number) => {
  const info = foundIn(event).find((one) => one.ref === ref)
  if (info)
    return {
      generation: info.generation ?? after.generation,
      createdAt: Math.min(at, info.createdAt ?? at),
      image: undefined,
      runs: info.state !== "paused" && info.state !== "stopped",
    }
  const created =
    event?.type === "answer" && event.call.do === "create" && event.answer.is === "ok"
      ? { generation: event.call.generation, image: event.answer.value.image }
      : undefined
  return {
    generation: created?.generation ?? after.generation,
    createdAt: at,
    image: created?.image,
    runs: true,
  }
}

const existingAfter = (step: LifeStep, at: number): readonly Existing[] => {
  const { after } = step
  const strays = after.doomed.map((ref) => ({ ref, ...newlyKnown(ref, step, at) }))
  if (after.ref === undefined) return strays
  const known = newlyKnown(after.ref, step, at)
  const restored = after.snapshot && `snapshot:${after.snapshot.id}`
  return [
    {
      ref: after.ref,
      createdAt: known.createdAt,
      image: known.image ?? restored,
      generation: after.generation,
      runs: after.phase !== "paused",
    },
    ...strays,
  ]
}

const whyEndedOf = (ref: string, { before, event, after }: LifeStep): WhyEnded => {
  if (before.doomed.includes(ref)) return "stray"
  if (ref !== before.ref || event?.type !== "answer") return "unknown"
  if (after.wanted === "ended") return "session-ended"
  const { call, answer } = event
  const left = call.do === "terminate" || (call.do === "snapshot" && answer.is === "ok")
  if (!left) return "gone"
  return before.wanted === "running" && before.replace ? "replaced" : "asleep"
}

/** Starts or stops counting. A record whose sandbox exists after all is open again. */
const withState = (record: SandboxRecord, runs: boolean, at: number): SandboxRecord => {
  const open = isOpen(record) ? record : { ...record, endedAt: undefined, whyEnded: undefined }
  if (runs) return open.countedAt === undefined ? { ...open, countedAt: at } : open
  return open.countedAt === undefined ? open : { ...counted(open, at), countedAt: undefined }
}

/** The records that a step adds or changes. `known`: all records of the session. */
export const recordsAfter = (
  known: readonly SandboxRecord[],
  step: LifeStep,
  owner: RecordOwner,
  at: number,
): readonly SandboxRecord[] => {
  const existing = existingAfter(step, at)
  const own = known.filter(({ tenant }) => tenant === owner.tenant)
  const isStray = (ref: string) => ref !== step.after.ref
  const here = existing.map(({ ref, generation, runs, createdAt, image }): SandboxRecord => {
    const record = own.find(
      (one) => one.ref === ref && (isOpen(one) || one.generation === generation),
    )
    // The state of a stray is not followed: it is terminated at once.
    if (record) return isOpen(record) && isStray(ref) ? record : withState(record, runs, at)
    const countedAt = runs ? createdAt : undefined
    return { ...owner, generation, ref, image, createdAt, seconds: 0, countedAt }
  })
  const { before } = step
  // One that this life does not know is of an earlier record of the session: the sweep finds out what became of it.
  const wasHere = ({ ref }: SandboxRecord) => ref === before.ref || before.doomed.includes(ref)
  const left = known
    .filter((record) => isOpen(record) && wasHere(record))
    .filter(({ ref }) => !existing.some((one) => one.ref === ref))
    .map((record) => ended(record, whyEndedOf(record.ref, step), at))
  return [...left, ...here.filter((record) => !known.includes(record))]
}
