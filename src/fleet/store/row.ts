/** The row of a session, as both databases return it. */
import { z } from "zod"
import { type SandboxRecord, whysEnded } from "../core/history.ts"
import type { Life } from "../core/life.ts"
import { lifeSchema, rowOf } from "./life-row.ts"
import { type PromptCounts, promptCounts } from "../core/prompt-counts.ts"
import { keepsAdmission } from "../core/quota.ts"
import type { StoredSnapshot } from "../core/snapshots.ts"
import { providerNames } from "../providers/contract.ts"
import {
  type LeftVolume,
  type PhaseCount,
  type RememberedCall,
  type SessionChange,
  sessionKinds,
  type StoredSession,
} from "./ports.ts"

const time = z.coerce.number().nullable()
const json = z.string().transform((text): unknown => JSON.parse(text))

const rowSchema = z.object({
  id: z.string(),
  tenant: z.string(),
  thread_key: z.string().nullable(),
  kind: z.enum(sessionKinds),
  pool_key: z.string().nullable(),
  creator: z.string().nullable(),
  held_until: time,
  admitted: z.coerce.number(),
  provider: z.enum(providerNames),
  environment: json.pipe(z.record(z.string(), z.string())),
  life: json.pipe(lifeSchema),
  rev: z.coerce.number(),
  caller: z.string().nullable(),
  call_until: time,
  due_at: time,
  created_at: z.coerce.number(),
  updated_at: z.coerce.number(),
})

export const readSession = (row: unknown): StoredSession => {
  const read = rowSchema.parse(row)
  return {
    id: read.id,
    tenant: read.tenant,
    kind: read.kind,
    ...(read.pool_key !== null && { poolKey: read.pool_key }),
    ...(read.creator !== null && { creator: read.creator }),
    ...(read.held_until !== null && { heldUntil: read.held_until }),
    ...(read.admitted === 1 && { isAdmitted: true }),
    threadKey: read.thread_key ?? undefined,
    provider: read.provider,
    environment: read.environment,
    life: read.life,
    rev: read.rev,
    caller: read.caller ?? undefined,
    callUntil: read.call_until ?? undefined,
    dueAt: read.due_at ?? undefined,
    createdAt: read.created_at,
    updatedAt: read.updated_at,
  }
}

export const changed = (
  session: StoredSession,
  { records: _records, snapshot: _snapshot, ...change }: SessionChange,
  at: number,
): StoredSession => ({
  ...session,
  ...change,
  ...(session.isAdmitted && { isAdmitted: keepsAdmission(change.life) }),
  rev: session.rev + 1,
  updatedAt: at,
})

/** How often a waiter reads: where it hears of changes, in case a notification is lost, and where it does not. */
export const BACKSTOP_MS = 3000
export const POLL_MS = 300

/** A first request without an answer for longer is lost. A program in a sandbox that had to be woken takes seven minutes. */
export const LOST_CALL_MS = 480_000
export const KEEP_ANSWER_MS = 86_400_000
/** The counts of a session without a report for longer are deleted: its next report is where counting begins again. */
export const KEEP_COUNTS_MS = 90 * 86_400_000

const countsRow = z.object({ counts: json.pipe(promptCounts) })

export const readCounts = (row: unknown): PromptCounts => countsRow.parse(row).counts

const snapshotRow = z.object({
  id: z.string(),
  session: z.string(),
  created_at: z.coerce.number(),
  ref: z.string().nullable(),
})

export const readSnapshot = (row: unknown): StoredSnapshot => {
  const { id, session, created_at: createdAt, ref } = snapshotRow.parse(row)
  return { id, session, createdAt, ...(ref !== null && { ref }) }
}

const volumeRow = z.object({ session: z.string(), provider: z.string() })

export const readVolume = (row: unknown): LeftVolume => volumeRow.parse(row)

const recordRow = z.object({
  session: z.string(),
  generation: z.coerce.number(),
  ref: z.string(),
  tenant: z.string(),
  provider: z.string(),
  image: z.string().nullable(),
  created_at: z.coerce.number(),
  ended_at: time,
  why_ended: z.enum(whysEnded).nullable(),
  seconds: z.coerce.number(),
  counted_at: time,
  cost_per_hour: z.coerce.number().nullable(),
})

export const readRecord = (row: unknown): SandboxRecord => {
  const read = recordRow.parse(row)
  return {
    session: read.session,
    generation: read.generation,
    ref: read.ref,
    tenant: read.tenant,
    provider: read.provider,
    image: read.image ?? undefined,
    createdAt: read.created_at,
    endedAt: read.ended_at ?? undefined,
    whyEnded: read.why_ended ?? undefined,
    seconds: read.seconds,
    countedAt: read.counted_at ?? undefined,
    costPerHour: read.cost_per_hour ?? undefined,
  }
}

/**
 * A life as both databases store it. PostgreSQL refuses JSON with a zero or with half a character, which an error of a sandbox
 * may contain or may have been cut to.
 */
export const lifeText = (life: Life): string =>
  JSON.stringify(rowOf(life), (_key, value: unknown) =>
    typeof value === "string" ? value.toWellFormed().replaceAll("\0", "\uFFFD") : value,
  )

const phaseRow = z.object({ provider: z.string(), phase: z.string(), count: z.coerce.number() })

export const readPhase = (row: unknown): PhaseCount => phaseRow.parse(row)

const timeRow = z.object({ at: z.coerce.number() })

export const readTime = (row: unknown): number => timeRow.parse(row).at

const secondsRow = z.object({ seconds: z.coerce.number() })

export const readSeconds = (row: unknown): number => secondsRow.parse(row).seconds

const callRow = z.object({
  digest: z.string(),
  status: z.coerce.number().nullable(),
  body: z.string().nullable(),
})

/** What an existing row of a key means for a request with this digest. */
export const readCall = (row: unknown, digest: string): RememberedCall => {
  const read = callRow.parse(row)
  if (read.digest !== digest) return { is: "other" }
  return read.status === null
    ? { is: "running" }
    : { is: "known", status: read.status, body: read.body ?? "" }
}
