/** The records of sandboxes on bun:sqlite. A record and the seconds of its owner's day change in one transaction. */
import type { Database } from "bun:sqlite"
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

export interface SqliteRecords {
  readonly port: RecordsPort
  /** Applies a decision about the records of a session, in the transaction of the caller. */
  readonly change: (
    session: string,
    at: number,
    decide: (known: readonly SandboxRecord[]) => readonly SandboxRecord[],
  ) => void
  /** A session that is added with a sandbox. */
  readonly added: (stored: StoredSession, at: number) => void
  /** The sandboxes of a session get another owner. The time before is the former owner's. */
  readonly move: (session: string, tenant: string, at: number) => void
}

export const sqliteRecords = (db: Database): SqliteRecords => {
  const addSeconds = (tenant: string, at: number, seconds: number) => {
    if (seconds === 0) return
    db.query(
      "INSERT INTO running_seconds VALUES (?, ?, ?) ON CONFLICT (tenant, day) DO UPDATE SET seconds = seconds + excluded.seconds",
    ).run(tenant, dayOf(at), seconds)
  }
  const write = (one: SandboxRecord) =>
    db
      .query(
        `INSERT INTO lives
          (session, generation, ref, tenant, provider, image, created_at, ended_at, why_ended, seconds, counted_at, cost_per_hour)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT (session, generation, ref) DO UPDATE SET tenant = excluded.tenant, created_at = excluded.created_at,
            ended_at = excluded.ended_at, why_ended = excluded.why_ended, seconds = excluded.seconds,
            counted_at = excluded.counted_at`,
      )
      .run(
        one.session,
        one.generation,
        one.ref,
        one.tenant,
        one.provider,
        one.image ?? null,
        one.createdAt,
        one.endedAt ?? null,
        one.whyEnded ?? null,
        one.seconds,
        one.countedAt ?? null,
        one.costPerHour ?? null,
      )

  const change: SqliteRecords["change"] = (session, at, decide) => {
    const known = db
      .query("SELECT * FROM lives WHERE session = ? ORDER BY generation, ref")
      .all(session)
      .map(readRecord)
    const changed = decide(known)
    for (const record of changed) write(record)
    const [first] = changed
    if (first) addSeconds(first.tenant, at, secondsAdded(known, changed))
  }

  return {
    change,
    added: (stored, at) => {
      if (stored.life.ref === undefined) return
      const owner = { session: stored.id, tenant: stored.tenant, provider: stored.provider }
      change(stored.id, at, (known) =>
        recordsAfter(known, { before: newLife, after: stored.life }, owner, at),
      )
    },
    move: (session, tenant, at) => {
      change(session, at, (known) => known.filter(isOpen).map((record) => counted(record, at)))
      db.query(
        "UPDATE lives SET tenant = ?, seconds = 0 WHERE session = ? AND ended_at IS NULL",
      ).run(tenant, session)
    },
    port: {
      history: async (session, tenant, limit) =>
        db
          .query(
            `SELECT * FROM lives WHERE session = ? AND tenant = ?
            ORDER BY created_at DESC, generation DESC, ref DESC LIMIT ?`,
          )
          .all(session, tenant, limit)
          .map(readRecord)
          .toReversed(),
      recordOf: async (ref) =>
        db
          .query(
            "SELECT * FROM lives WHERE ref = ? ORDER BY created_at DESC, generation DESC LIMIT 1",
          )
          .all(ref)
          .map(readRecord)
          .at(0),
      countSeconds: async (at) =>
        db
          .transaction(() => {
            const running = db.query("SELECT * FROM lives WHERE counted_at IS NOT NULL").all()
            return running.map(readRecord).flatMap((record): RanSeconds[] => {
              const next = counted(record, at)
              write(next)
              const seconds = next.seconds - record.seconds
              addSeconds(record.tenant, at, seconds)
              const { provider, tenant } = record
              return seconds > 0 ? [{ provider, tenant, seconds }] : []
            })
          })
          .immediate(),
      openRecords: async (provider) =>
        db
          .query("SELECT * FROM lives WHERE ended_at IS NULL AND provider = ?")
          .all(provider)
          .map(readRecord),
      endRecord: async (session, ref, why, at) =>
        db
          .transaction(() =>
            change(session, at, (known) =>
              known
                .filter((record) => isOpen(record) && record.ref === ref)
                .map((record) => ended(record, why, at)),
            ),
          )
          .immediate(),
      purgeHistory: async (before) =>
        void db.query("DELETE FROM lives WHERE ended_at < ?").run(before),
    },
  }
}
