/** The fleet's store on bun:sqlite, for one process. */
import { Database } from "bun:sqlite"
import { chmodSync, mkdirSync } from "node:fs"
import { dirname } from "node:path"
import type { Life } from "../core/life.ts"
import { rowOf } from "./life-row.ts"
import { isReady } from "../core/pool.ts"
import { DAY_MS, dayOf, keepsAdmission } from "../core/quota.ts"
import type { StoredSnapshot } from "../core/snapshots.ts"
import { announced, createChanges } from "./changes.ts"
import type { FleetStore, NewSession, RememberedCall, StoredSession } from "./ports.ts"
import {
  BACKSTOP_MS,
  changed,
  KEEP_ANSWER_MS,
  KEEP_COUNTS_MS,
  LOST_CALL_MS,
  readCall,
  readPhase,
  readSession,
  readSnapshot,
} from "./row.ts"
import { sqliteCounts } from "./sqlite-counts.ts"
import { sqliteRecords } from "./sqlite-records.ts"
import { setUpSqlite } from "./sqlite-schema.ts"
import { sqliteVolumes } from "./sqlite-volumes.ts"

/** `changes`: the stores of one process on one file share it. */
export const openSqliteStore = (path: string, changes = createChanges()): FleetStore => {
  if (path !== ":memory:") mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const db = new Database(path, { create: true, strict: true })
  // The environments of sandboxes may hold secrets.
  if (path !== ":memory:") chmodSync(path, 0o600)
  setUpSqlite(db)
  const records = sqliteRecords(db)
  const volumes = sqliteVolumes(db)

  const one = (
    query: string,
    ...values: readonly (string | number | null)[]
  ): StoredSession | undefined => {
    const row = db.query(query).get(...values)
    return row === null ? undefined : readSession(row)
  }
  const byId = (id: string) => one("SELECT * FROM sandbox_sessions WHERE id = ?", id)
  const byThread = (tenant: string, threadKey: string | undefined) =>
    threadKey === undefined
      ? undefined
      : one("SELECT * FROM sandbox_sessions WHERE tenant = ? AND thread_key = ?", tenant, threadKey)

  const add = (session: NewSession, life: Life, at: number): StoredSession => {
    const inserted =
      db
        .query(
          `INSERT OR IGNORE INTO sandbox_sessions
        (id, tenant, thread_key, provider, environment, life, rev, created_at, updated_at, kind, pool_key, ref)
        VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)`,
        )
        .run(
          session.id,
          session.tenant,
          session.threadKey ?? null,
          session.provider,
          JSON.stringify(session.environment),
          JSON.stringify(rowOf(life)),
          at,
          at,
          session.kind ?? "hub",
          session.poolKey ?? null,
          life.ref ?? null,
        ).changes > 0
    const stored = byThread(session.tenant, session.threadKey) ?? byId(session.id)
    if (!stored) throw new Error(`the session ${session.id} was not stored`)
    if (inserted) records.added(stored, at)
    return stored
  }

  const activeOf = (tenant: string): readonly StoredSession[] =>
    db
      .query(
        `SELECT * FROM sandbox_sessions WHERE tenant = ?
          AND (ref IS NOT NULL OR caller IS NOT NULL OR admitted = 1)`,
      )
      .all(tenant)
      .map(readSession)

  const addSnapshot = ({ id, session, createdAt, ref }: StoredSnapshot): void =>
    void db
      .query("INSERT OR IGNORE INTO snapshots (id, session, created_at, ref) VALUES (?, ?, ?, ?)")
      .run(id, session, createdAt, ref ?? null)

  const store: Omit<FleetStore, "watch"> = {
    ...records.port,
    ...volumes.port,
    ...sqliteCounts(db),
    // One process: the changes of others do not exist.
    pollMs: () => BACKSTOP_MS,
    deployment: async () => String(db.query("SELECT id FROM deployment").values()[0]?.[0]),
    add: async (session, life, at) => db.transaction(() => add(session, life, at)).immediate(),
    replace: async (session, life, at) =>
      db
        .transaction(() => {
          db.query("DELETE FROM sandbox_sessions WHERE id = ?").run(session.id)
          return add(session, life, at)
        })
        .immediate(),
    find: async (id) => byId(id),
    findThread: async (tenant, threadKey) => byThread(tenant, threadKey),
    findRef: async (ref) => one("SELECT * FROM sandbox_sessions WHERE ref = ?", ref),
    page: async (after, limit) =>
      db
        .query(
          "SELECT * FROM sandbox_sessions WHERE (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?",
        )
        .all(after?.createdAt ?? -1, after?.id ?? "", limit)
        .map(readSession),
    activeOf: async (tenant) => activeOf(tenant),
    phases: async () =>
      db
        .query(
          `SELECT provider, json_extract(life, '$.phase') AS phase, count(*) AS count FROM sandbox_sessions
            WHERE json_extract(life, '$.phase') <> 'ended' GROUP BY 1, 2`,
        )
        .all()
        .map(readPhase),
    present: async () =>
      db
        .query(
          "SELECT * FROM sandbox_sessions WHERE json_extract(life, '$.phase') <> 'ended' ORDER BY created_at, id",
        )
        .all()
        .map(readSession),
    endedToTidy: async (endedBefore, at, limit) =>
      db
        .query(
          `SELECT * FROM sandbox_sessions WHERE json_extract(life, '$.phase') = 'ended'
              AND tidy_at IS NULL AND updated_at <= ?
            UNION ALL SELECT * FROM sandbox_sessions WHERE json_extract(life, '$.phase') = 'ended'
              AND tidy_at <= ? LIMIT ?`,
        )
        .all(endedBefore, at, limit)
        .map(readSession),
    tidyAgain: async (id, at) =>
      void db.query("UPDATE sandbox_sessions SET tidy_at = ? WHERE id = ?").run(at, id),
    forgetEnded: async ({ id, rev }) =>
      void db
        .query(
          "DELETE FROM sandbox_sessions WHERE id = ? AND rev = ? AND json_extract(life, '$.phase') = 'ended'",
        )
        .run(id, rev),
    pooled: async () =>
      db
        .query("SELECT * FROM sandbox_sessions WHERE kind IN ('pool', 'claimed')")
        .all()
        .map(readSession),
    claim: async (poolKey, { tenant, threadKey, among, creator, heldUntil, hasRoom }, at) =>
      db
        .transaction(() => {
          const known = byThread(tenant, threadKey)
          if (known) return known
          if (hasRoom?.(activeOf(tenant)) === false) return undefined
          const ready = db
            .query(
              "SELECT * FROM sandbox_sessions WHERE kind = 'pool' AND pool_key = ? ORDER BY created_at, id",
            )
            .all(poolKey)
            .map(readSession)
            .find(({ id, life }) => isReady(life) && (!among || among.includes(id)))
          if (!ready) return undefined
          db.query(
            `UPDATE sandbox_sessions SET kind = 'claimed', tenant = ?, thread_key = ?, creator = ?, held_until = ?,
              rev = rev + 1, updated_at = ? WHERE id = ?`,
          ).run(tenant, threadKey ?? null, creator ?? null, heldUntil ?? null, at, ready.id)
          records.move(ready.id, tenant, at)
          return byId(ready.id)
        })
        .immediate(),
    unclaim: async (id, poolTenant, at) =>
      db
        .transaction(() => {
          const put = db
            .query(
              `UPDATE sandbox_sessions SET kind = 'pool', tenant = ?, thread_key = NULL, creator = NULL, held_until = NULL
                WHERE id = ? AND kind = 'claimed'`,
            )
            .run(poolTenant, id)
          if (put.changes > 0) records.move(id, poolTenant, at)
        })
        .immediate(),
    bind: async (id) =>
      void db
        .query(
          `UPDATE sandbox_sessions SET kind = 'hub', creator = NULL, held_until = NULL
            WHERE id = ? AND kind = 'claimed'`,
        )
        .run(id),
    change: async (id, at, decide) =>
      db
        .transaction(() => {
          const session = byId(id)
          const change = session && decide(session)
          if (!change) return session
          db.query(
            `UPDATE sandbox_sessions SET life = ?, ref = ?, rev = rev + 1, caller = ?, call_until = ?, due_at = ?,
              admitted = admitted * ?, updated_at = ? WHERE id = ?`,
          ).run(
            JSON.stringify(rowOf(change.life)),
            change.life.ref ?? null,
            change.caller ?? null,
            change.callUntil ?? null,
            change.dueAt ?? null,
            Number(keepsAdmission(change.life)),
            at,
            id,
          )
          if (change.records) records.change(id, at, change.records)
          if (change.snapshot) addSnapshot(change.snapshot)
          return changed(session, change, at)
        })
        .immediate(),
    renewCall: async (id, caller, number, until) =>
      db
        .query(
          "UPDATE sandbox_sessions SET call_until = ? WHERE id = ? AND caller = ? AND json_extract(life, '$.pending.number') = ?",
        )
        .run(until, id, caller, number).changes > 0,
    // With `+` the order is made afterwards: an index for it would be read as a whole.
    due: async (at, limit) =>
      db
        .query<{ id: string }, [number, number, number]>(
          "SELECT id FROM sandbox_sessions WHERE due_at <= ? OR call_until <= ? ORDER BY +due_at LIMIT ?",
        )
        .all(at, at, limit)
        .map(({ id }) => id),
    lease: async (name, owner, at, until) =>
      db
        .query(
          `INSERT INTO leases VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
            WHERE leases.owner = excluded.owner OR leases.until <= ?`,
        )
        .run(name, owner, until, at).changes > 0,
    remember: async (tenant, key, digest, at) =>
      db
        .transaction((): RememberedCall => {
          db.query(
            "DELETE FROM idempotency WHERE tenant = ? AND key = ? AND (at <= ? OR (status IS NULL AND at <= ?))",
          ).run(tenant, key, at - KEEP_ANSWER_MS, at - LOST_CALL_MS)
          const row = db
            .query("SELECT digest, status, body FROM idempotency WHERE tenant = ? AND key = ?")
            .get(tenant, key)
          if (row !== null) return readCall(row, digest)
          db.query("INSERT INTO idempotency (tenant, key, digest, at) VALUES (?, ?, ?, ?)").run(
            tenant,
            key,
            digest,
            at,
          )
          return { is: "new" }
        })
        .immediate(),
    settle: async (tenant, key, status, body, keep) => {
      if (keep)
        db.query("UPDATE idempotency SET status = ?, body = ? WHERE tenant = ? AND key = ?").run(
          status,
          body,
          tenant,
          key,
        )
      else db.query("DELETE FROM idempotency WHERE tenant = ? AND key = ?").run(tenant, key)
    },
    admit: async ({ id, tenant }, number, decide) =>
      db
        .transaction(() => {
          const refusal = decide(activeOf(tenant))
          if (refusal) return refusal
          db.query(
            "UPDATE sandbox_sessions SET admitted = 1 WHERE id = ? AND json_extract(life, '$.pending.number') = ?",
          ).run(id, number)
          return undefined
        })
        .immediate(),
    addSnapshot: async (snapshot) => addSnapshot(snapshot),
    snapshots: async () =>
      db.query("SELECT * FROM snapshots ORDER BY created_at").all().map(readSnapshot),
    snapshotOf: async (ref) =>
      db
        .query("SELECT * FROM snapshots WHERE ref = ? ORDER BY created_at DESC LIMIT 1")
        .all(ref)
        .map(readSnapshot)
        .at(0),
    dropSnapshot: async (id) => void db.query("DELETE FROM snapshots WHERE id = ?").run(id),
    purge: async (at) => {
      db.query("DELETE FROM leases WHERE until <= ?").run(at)
      db.query("DELETE FROM idempotency WHERE at <= ?").run(at - KEEP_ANSWER_MS)
      db.query("DELETE FROM creates WHERE at <= ?").run(at - DAY_MS)
      db.query("DELETE FROM running_seconds WHERE day < ?").run(dayOf(at))
      db.query("DELETE FROM prompt_counts WHERE at <= ?").run(at - KEEP_COUNTS_MS)
    },
    forget: async (id, leftAt) =>
      db
        .transaction(() => {
          if (leftAt !== undefined) volumes.leave(id, leftAt)
          db.query("DELETE FROM sandbox_sessions WHERE id = ?").run(id)
        })
        .immediate(),
    close: async () => db.close(),
  }
  return announced(store, changes)
}
