/** The fleet's store on bun:sqlite, for one process. */
import { Database } from "bun:sqlite"
import { chmodSync, mkdirSync } from "node:fs"
import { dirname } from "node:path"
import type { Life } from "../core/life.ts"
import { isReady } from "../core/pool.ts"
import { DAY_MS, dayOf } from "../core/quota.ts"
import type { FleetStore, NewSession, RememberedCall, StoredSession } from "./ports.ts"
import {
  changed,
  KEEP_ANSWER_MS,
  LOST_CALL_MS,
  readCall,
  readPhase,
  readSeconds,
  readSession,
  readSnapshot,
  readTime,
} from "./row.ts"

const setUp = [
  "PRAGMA journal_mode = WAL",
  "PRAGMA synchronous = NORMAL",
  "PRAGMA busy_timeout = 5000",
  "CREATE TABLE IF NOT EXISTS deployment (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), id TEXT NOT NULL) STRICT",
  `CREATE TABLE IF NOT EXISTS sandbox_sessions (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, thread_key TEXT, provider TEXT NOT NULL, environment TEXT NOT NULL,
    life TEXT NOT NULL, rev INTEGER NOT NULL, caller TEXT, call_until INTEGER, due_at INTEGER,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, kind TEXT NOT NULL DEFAULT 'hub',
    pool_key TEXT, ref TEXT, UNIQUE (tenant, thread_key)) STRICT`,
  "CREATE INDEX IF NOT EXISTS sandbox_sessions_due ON sandbox_sessions (due_at)",
  `CREATE TABLE IF NOT EXISTS idempotency (
    tenant TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, status INTEGER, body TEXT, at INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)) STRICT`,
  "CREATE TABLE IF NOT EXISTS snapshots (id TEXT PRIMARY KEY, session TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT",
  "CREATE TABLE IF NOT EXISTS leases (name TEXT PRIMARY KEY, owner TEXT NOT NULL, until INTEGER NOT NULL) STRICT",
  `CREATE TABLE IF NOT EXISTS creates (
    session TEXT NOT NULL, generation INTEGER NOT NULL, tenant TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (session, generation)) STRICT`,
  "CREATE INDEX IF NOT EXISTS creates_tenant ON creates (tenant, at)",
  `CREATE TABLE IF NOT EXISTS running_seconds (
    tenant TEXT NOT NULL, day INTEGER NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (tenant, day)) STRICT`,
]

/** After the columns exist, also in a database of an earlier version. */
const indexes = [
  "CREATE INDEX IF NOT EXISTS sandbox_sessions_ref ON sandbox_sessions (ref)",
  "CREATE INDEX IF NOT EXISTS sandbox_sessions_order ON sandbox_sessions (created_at, id)",
]

export const openSqliteStore = (path: string): FleetStore => {
  if (path !== ":memory:") mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const db = new Database(path, { create: true, strict: true })
  // The environments of sandboxes may hold secrets.
  if (path !== ":memory:") chmodSync(path, 0o600)
  for (const statement of setUp) db.run(statement)
  // A database of an earlier version.
  const columns = db.query<{ name: string }, []>("PRAGMA table_info(sandbox_sessions)").all()
  for (const [column, type] of [
    ["kind", "TEXT NOT NULL DEFAULT 'hub'"],
    ["pool_key", "TEXT"],
    ["ref", "TEXT"],
  ] as const)
    if (columns.every(({ name }) => name !== column))
      db.run(`ALTER TABLE sandbox_sessions ADD COLUMN ${column} ${type}`)
  if (columns.every(({ name }) => name !== "ref"))
    db.run("UPDATE sandbox_sessions SET ref = json_extract(life, '$.ref')")
  for (const statement of indexes) db.run(statement)
  db.query("INSERT OR IGNORE INTO deployment VALUES (1, ?)").run(crypto.randomUUID())

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
    db.query(
      `INSERT OR IGNORE INTO sandbox_sessions
        (id, tenant, thread_key, provider, environment, life, rev, created_at, updated_at, kind, pool_key, ref)
        VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)`,
    ).run(
      session.id,
      session.tenant,
      session.threadKey ?? null,
      session.provider,
      JSON.stringify(session.environment),
      JSON.stringify(life),
      at,
      at,
      session.kind ?? "hub",
      session.poolKey ?? null,
      life.ref ?? null,
    )
    const stored = byThread(session.tenant, session.threadKey) ?? byId(session.id)
    if (!stored) throw new Error(`the session ${session.id} was not stored`)
    return stored
  }

  return {
    deployment: async () => String(db.query("SELECT id FROM deployment").values()[0]?.[0]),
    add: async (session, life, at) => add(session, life, at),
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
    activeOf: async (tenant) =>
      db
        .query(
          "SELECT * FROM sandbox_sessions WHERE tenant = ? AND (ref IS NOT NULL OR caller IS NOT NULL)",
        )
        .all(tenant)
        .map(readSession),
    phases: async () =>
      db
        .query(
          "SELECT provider, json_extract(life, '$.phase') AS phase, count(*) AS count FROM sandbox_sessions GROUP BY 1, 2",
        )
        .all()
        .map(readPhase),
    list: async () =>
      db.query("SELECT * FROM sandbox_sessions ORDER BY created_at, id").all().map(readSession),
    pooled: async () =>
      db
        .query("SELECT * FROM sandbox_sessions WHERE kind IN ('pool', 'claimed')")
        .all()
        .map(readSession),
    claim: async (poolKey, { tenant, threadKey }, at) =>
      db
        .transaction(() => {
          const known = byThread(tenant, threadKey)
          if (known) return known
          const ready = db
            .query(
              "SELECT * FROM sandbox_sessions WHERE kind = 'pool' AND pool_key = ? ORDER BY created_at, id",
            )
            .all(poolKey)
            .map(readSession)
            .find(({ life }) => isReady(life))
          if (!ready) return undefined
          db.query(
            "UPDATE sandbox_sessions SET kind = 'claimed', tenant = ?, thread_key = ?, rev = rev + 1, updated_at = ? WHERE id = ?",
          ).run(tenant, threadKey ?? null, at, ready.id)
          return byId(ready.id)
        })
        .immediate(),
    unclaim: async (id, poolTenant) =>
      void db
        .query(
          "UPDATE sandbox_sessions SET kind = 'pool', tenant = ?, thread_key = NULL WHERE id = ? AND kind = 'claimed'",
        )
        .run(poolTenant, id),
    bind: async (id) =>
      void db
        .query("UPDATE sandbox_sessions SET kind = 'hub' WHERE id = ? AND kind = 'claimed'")
        .run(id),
    change: async (id, at, decide) =>
      db
        .transaction(() => {
          const session = byId(id)
          const change = session && decide(session)
          if (!change) return session
          db.query(
            "UPDATE sandbox_sessions SET life = ?, ref = ?, rev = rev + 1, caller = ?, call_until = ?, due_at = ?, updated_at = ? WHERE id = ?",
          ).run(
            JSON.stringify(change.life),
            change.life.ref ?? null,
            change.caller ?? null,
            change.callUntil ?? null,
            change.dueAt ?? null,
            at,
            id,
          )
          return changed(session, change, at)
        })
        .immediate(),
    renewCall: async (id, caller, number, until) =>
      db
        .query(
          "UPDATE sandbox_sessions SET call_until = ? WHERE id = ? AND caller = ? AND json_extract(life, '$.pending.number') = ?",
        )
        .run(until, id, caller, number).changes > 0,
    due: async (at, limit) =>
      db
        .query<{ id: string }, [number, number, number]>(
          "SELECT id FROM sandbox_sessions WHERE due_at <= ? OR call_until <= ? ORDER BY due_at LIMIT ?",
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
    creates: async (tenant, after) =>
      db
        .query("SELECT at FROM creates WHERE tenant = ? AND at > ?")
        .all(tenant, after)
        .map(readTime),
    countCreate: async ({ tenant, session, generation, at }, decide) =>
      db
        .transaction(() => {
          const known = db.query("SELECT at FROM creates WHERE session = ? AND generation = ?")
          if (known.get(session, generation) !== null) return undefined
          const times = db
            .query("SELECT at FROM creates WHERE tenant = ? AND at > ?")
            .all(tenant, at - DAY_MS)
          const refusal = decide(times.map(readTime))
          if (refusal) return refusal
          db.query("INSERT INTO creates VALUES (?, ?, ?, ?)").run(session, generation, tenant, at)
          return undefined
        })
        .immediate(),
    uncountCreate: async (session, generation) =>
      void db
        .query("DELETE FROM creates WHERE session = ? AND generation = ?")
        .run(session, generation),
    addSeconds: async (tenant, day, seconds) =>
      void db
        .query(
          "INSERT INTO running_seconds VALUES (?, ?, ?) ON CONFLICT (tenant, day) DO UPDATE SET seconds = seconds + excluded.seconds",
        )
        .run(tenant, day, seconds),
    secondsOf: async (tenant, day) => {
      const row = db
        .query("SELECT seconds FROM running_seconds WHERE tenant = ? AND day = ?")
        .get(tenant, day)
      return row === null ? 0 : readSeconds(row)
    },
    addSnapshot: async ({ id, session, createdAt }) =>
      void db
        .query("INSERT OR IGNORE INTO snapshots (id, session, created_at) VALUES (?, ?, ?)")
        .run(id, session, createdAt),
    snapshots: async () =>
      db.query("SELECT * FROM snapshots ORDER BY created_at").all().map(readSnapshot),
    dropSnapshot: async (id) => void db.query("DELETE FROM snapshots WHERE id = ?").run(id),
    purge: async (at) => {
      db.query("DELETE FROM leases WHERE until <= ?").run(at)
      db.query("DELETE FROM idempotency WHERE at <= ?").run(at - KEEP_ANSWER_MS)
      db.query("DELETE FROM creates WHERE at <= ?").run(at - DAY_MS)
      db.query("DELETE FROM running_seconds WHERE day < ?").run(dayOf(at))
    },
    forget: async (id) => void db.query("DELETE FROM sandbox_sessions WHERE id = ?").run(id),
    close: async () => db.close(),
  }
}
