/** The records of sandboxes on PostgreSQL. A record and the seconds of its owner's day change in one transaction. */
import type { SQL } from "bun"
import {
  counted,
  ended,
  isOpen,
  recordsAfter,
  type SandboxRecord,
  secondsAdded,
} from "../core/history.ts"
import { newLife } from "../core/life.ts"
import { dayOf } from "../core/quota.ts"
import type { RanSeconds, RecordsPort, StoredSession } from "./ports.ts"
import { readRecord } from "./row.ts"

/** Locked until the end of the transaction: the caretaker counts these rows without the lock of their session. */
const recordsOf = async (on: SQL, session: string): Promise<readonly SandboxRecord[]> => {
  const rows = (await on`SELECT * FROM lives WHERE session = ${session}
    ORDER BY generation, ref FOR UPDATE`) as unknown[]
  return rows.map(readRecord)
}

const addSeconds = async (on: SQL, tenant: string, at: number, seconds: number) => {
  if (seconds === 0) return
  await on`INSERT INTO running_seconds VALUES (${tenant}, ${dayOf(at)}, ${seconds})
    ON CONFLICT (tenant, day) DO UPDATE SET seconds = running_seconds.seconds + excluded.seconds`
}

const write = async (on: SQL, one: SandboxRecord) => {
  await on`INSERT INTO lives
      (session, generation, ref, tenant, provider, image, created_at, ended_at, why_ended, seconds, counted_at, cost_per_hour)
    VALUES (${one.session}, ${one.generation}, ${one.ref}, ${one.tenant}, ${one.provider}, ${one.image ?? null},
      ${one.createdAt}, ${one.endedAt ?? null}, ${one.whyEnded ?? null}, ${one.seconds}, ${one.countedAt ?? null},
      ${one.costPerHour ?? null})
    ON CONFLICT (session, generation, ref) DO UPDATE SET tenant = excluded.tenant, created_at = excluded.created_at,
      ended_at = excluded.ended_at, why_ended = excluded.why_ended, seconds = excluded.seconds,
      counted_at = excluded.counted_at`
}

/** Applies a decision about the records of a session, in the transaction of the caller. */
export const changeRecords = async (
  on: SQL,
  session: string,
  at: number,
  decide: (known: readonly SandboxRecord[]) => readonly SandboxRecord[],
): Promise<void> => {
  const known = await recordsOf(on, session)
  const changed = decide(known)
  for (const record of changed) await write(on, record)
  const [first] = changed
  if (first) await addSeconds(on, first.tenant, at, secondsAdded(known, changed))
}

/** A session that is added with a sandbox. */
export const recordAdded = async (on: SQL, stored: StoredSession, at: number): Promise<void> => {
  if (stored.life.ref === undefined) return
  const owner = { session: stored.id, tenant: stored.tenant, provider: stored.provider }
  await changeRecords(on, stored.id, at, (known) =>
    recordsAfter(known, { before: newLife, after: stored.life }, owner, at),
  )
}

/** The sandboxes of a session get another owner. The time before is the former owner's. */
export const moveRecords = async (
  on: SQL,
  session: string,
  tenant: string,
  at: number,
): Promise<void> => {
  await changeRecords(on, session, at, (known) =>
    known.filter(isOpen).map((record) => counted(record, at)),
  )
  await on`UPDATE lives SET tenant = ${tenant}, seconds = 0 WHERE session = ${session} AND ended_at IS NULL`
}

export const postgresRecords = (sql: SQL): RecordsPort => ({
  history: async (session, tenant, limit) => {
    const rows = (await sql`SELECT * FROM lives WHERE session = ${session} AND tenant = ${tenant}
      ORDER BY created_at DESC, generation DESC, ref DESC LIMIT ${limit}`) as unknown[]
    return rows.map(readRecord).toReversed()
  },
  recordOf: async (ref) => {
    const rows = (await sql`SELECT * FROM lives WHERE ref = ${ref}
      ORDER BY created_at DESC, generation DESC LIMIT 1`) as unknown[]
    return rows.map(readRecord).at(0)
  },
  countSeconds: async (at) => {
    const rows = (await sql`SELECT * FROM lives WHERE counted_at IS NOT NULL`) as unknown[]
    const ran: RanSeconds[] = []
    for (const record of rows.map(readRecord)) {
      const next = counted(record, at)
      const seconds = next.seconds - record.seconds
      // One statement: a change of the session that was faster has counted, and nothing is counted twice.
      const moved = (await sql`WITH moved AS (
          UPDATE lives SET seconds = ${next.seconds}, counted_at = ${at}
          WHERE session = ${record.session} AND generation = ${record.generation} AND ref = ${record.ref}
            AND tenant = ${record.tenant} AND counted_at = ${record.countedAt ?? null} RETURNING tenant)
        INSERT INTO running_seconds SELECT tenant, ${dayOf(at)}, ${seconds} FROM moved
        ON CONFLICT (tenant, day) DO UPDATE SET seconds = running_seconds.seconds + excluded.seconds
        RETURNING tenant`) as unknown[]
      const { provider, tenant } = record
      if (moved.length > 0 && seconds > 0) ran.push({ provider, tenant, seconds })
    }
    return ran
  },
  openRecords: async (provider) => {
    const rows =
      (await sql`SELECT * FROM lives WHERE ended_at IS NULL AND provider = ${provider}`) as unknown[]
    return rows.map(readRecord)
  },
  endRecord: (session, ref, why, at) =>
    sql.begin((transaction) =>
      changeRecords(transaction, session, at, (known) =>
        known
          .filter((record) => isOpen(record) && record.ref === ref)
          .map((record) => ended(record, why, at)),
      ),
    ),
  purgeHistory: async (before) => {
    await sql`DELETE FROM lives WHERE ended_at < ${before}`
  },
})
