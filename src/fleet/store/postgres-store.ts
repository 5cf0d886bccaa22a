/**
 * The fleet's store on PostgreSQL, for many replicas. A change holds a transaction-level advisory lock for the few
 * milliseconds of a read and a write, never across a provider's call, so a connection pool in transaction mode works too.
 */
import type { SQL } from "bun"
import { isReady } from "../core/pool.ts"
import type { FleetStore, RememberedCall, StoredSession } from "./ports.ts"
import {
  changed,
  KEEP_ANSWER_MS,
  LOST_CALL_MS,
  readCall,
  readSession,
  readSnapshot,
} from "./row.ts"

const setUp = `
CREATE TABLE IF NOT EXISTS deployment (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sandbox_sessions (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, thread_key TEXT, provider TEXT NOT NULL, environment TEXT NOT NULL,
  life TEXT NOT NULL, rev BIGINT NOT NULL, caller TEXT, call_until BIGINT, due_at BIGINT,
  created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, UNIQUE (tenant, thread_key));
ALTER TABLE sandbox_sessions ADD COLUMN IF NOT EXISTS kind TEXT NOT NULL DEFAULT 'hub';
ALTER TABLE sandbox_sessions ADD COLUMN IF NOT EXISTS pool_key TEXT;
CREATE TABLE IF NOT EXISTS idempotency (
  tenant TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, status INTEGER, body TEXT, at BIGINT NOT NULL,
  PRIMARY KEY (tenant, key));
CREATE INDEX IF NOT EXISTS sandbox_sessions_due ON sandbox_sessions (due_at);
CREATE TABLE IF NOT EXISTS snapshots (id TEXT PRIMARY KEY, session TEXT NOT NULL, created_at BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS leases (name TEXT PRIMARY KEY, owner TEXT NOT NULL, until BIGINT NOT NULL);
`

/** A change waits this long for another one of the same session. */
const LOCK_TIMEOUT_MS = 5000

export const openPostgresStore = async (url: string, maxConnections = 4): Promise<FleetStore> => {
  const sql = new Bun.SQL({ url, max: maxConnections })
  await sql.begin(async (transaction) => {
    // Two replicas that start at the same time would create the same tables.
    await transaction`SELECT pg_advisory_xact_lock(7235901)`
    await transaction.unsafe(setUp)
    await transaction`INSERT INTO deployment VALUES (1, ${crypto.randomUUID()}) ON CONFLICT DO NOTHING`
  })

  const first = (rows: readonly unknown[]): StoredSession | undefined =>
    rows.length === 0 ? undefined : readSession(rows[0])
  const byId = async (id: string, on: SQL = sql) =>
    first(await on`SELECT * FROM sandbox_sessions WHERE id = ${id}`)
  const byThread = async (tenant: string, threadKey: string | undefined, on: SQL = sql) =>
    threadKey === undefined
      ? undefined
      : first(
          await on`SELECT * FROM sandbox_sessions WHERE tenant = ${tenant} AND thread_key = ${threadKey}`,
        )

  return {
    deployment: async () => {
      const rows = (await sql`SELECT id FROM deployment`) as readonly { readonly id: string }[]
      return String(rows[0]?.id)
    },
    add: (session, life, at) =>
      sql.begin(async (transaction) => {
        await transaction`INSERT INTO sandbox_sessions
            (id, tenant, thread_key, provider, environment, life, rev, created_at, updated_at, kind, pool_key)
          VALUES (${session.id}, ${session.tenant}, ${session.threadKey ?? null}, ${session.provider},
            ${JSON.stringify(session.environment)}, ${JSON.stringify(life)}, 0, ${at}, ${at}, ${session.kind ?? "hub"},
            ${session.poolKey ?? null})
          ON CONFLICT DO NOTHING`
        const stored =
          (await byThread(session.tenant, session.threadKey, transaction)) ??
          (await byId(session.id, transaction))
        if (!stored) throw new Error(`the session ${session.id} was not stored`)
        return stored
      }),
    find: (id) => byId(id),
    findThread: (tenant, threadKey) => byThread(tenant, threadKey),
    list: async () => {
      const rows = (await sql`SELECT * FROM sandbox_sessions ORDER BY created_at, id`) as unknown[]
      return rows.map(readSession)
    },
    pooled: async () => {
      const rows =
        (await sql`SELECT * FROM sandbox_sessions WHERE kind IN ('pool', 'claimed')`) as unknown[]
      return rows.map(readSession)
    },
    claim: (poolKey, { tenant, threadKey }, at) =>
      sql.begin(async (transaction) => {
        await transaction.unsafe(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
        // Two claims for one thread: the second finds the session of the first.
        const thread = JSON.stringify([tenant, threadKey])
        await transaction`SELECT pg_advisory_xact_lock(hashtextextended(${thread}, 1))`
        const known = await byThread(tenant, threadKey, transaction)
        if (known) return known
        const rows = (await transaction`SELECT id FROM sandbox_sessions WHERE kind = 'pool'
          AND pool_key = ${poolKey} ORDER BY created_at, id`) as readonly { readonly id: string }[]
        for (const { id } of rows) {
          // Held by a change of this session or by another claim, which then takes it: the next one is tried.
          const [lock] =
            (await transaction`SELECT pg_try_advisory_xact_lock(hashtextextended(${id}, 0))
            AS held`) as readonly { readonly held: boolean }[]
          const found = lock?.held === true ? await byId(id, transaction) : undefined
          if (found?.kind !== "pool" || !isReady(found.life)) continue
          await transaction`UPDATE sandbox_sessions SET kind = 'claimed', tenant = ${tenant},
            thread_key = ${threadKey}, rev = rev + 1, updated_at = ${at} WHERE id = ${id}`
          return byId(id, transaction)
        }
        return undefined
      }),
    bind: async (id) => {
      await sql`UPDATE sandbox_sessions SET kind = 'hub' WHERE id = ${id} AND kind = 'claimed'`
    },
    change: (id, at, decide) =>
      sql.begin(async (transaction) => {
        await transaction.unsafe(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
        await transaction`SELECT pg_advisory_xact_lock(hashtextextended(${id}, 0))`
        const session = await byId(id, transaction)
        const change = session && decide(session)
        if (!change) return session
        await transaction`UPDATE sandbox_sessions SET life = ${JSON.stringify(change.life)}, rev = rev + 1,
            caller = ${change.caller ?? null}, call_until = ${change.callUntil ?? null},
            due_at = ${change.dueAt ?? null}, updated_at = ${at} WHERE id = ${id}`
        return changed(session, change, at)
      }),
    renewCall: async (id, caller, number, until) => {
      const rows =
        (await sql`UPDATE sandbox_sessions SET call_until = ${until} WHERE id = ${id} AND caller = ${caller}
        AND (life::json #>> '{pending,number}')::int = ${number} RETURNING id`) as unknown[]
      return rows.length > 0
    },
    due: async (at, limit) => {
      const rows =
        (await sql`SELECT id FROM sandbox_sessions WHERE due_at <= ${at} OR call_until <= ${at}
        ORDER BY due_at LIMIT ${limit}`) as readonly { readonly id: string }[]
      return rows.map(({ id }) => id)
    },
    lease: async (name, owner, at, until) => {
      const rows = (await sql`INSERT INTO leases VALUES (${name}, ${owner}, ${until})
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
        WHERE leases.owner = excluded.owner OR leases.until <= ${at} RETURNING name`) as unknown[]
      return rows.length > 0
    },
    remember: (tenant, key, digest, at) =>
      sql.begin(async (transaction): Promise<RememberedCall> => {
        await transaction`DELETE FROM idempotency WHERE tenant = ${tenant} AND key = ${key}
          AND (at <= ${at - KEEP_ANSWER_MS} OR (status IS NULL AND at <= ${at - LOST_CALL_MS}))`
        const added = (await transaction`INSERT INTO idempotency (tenant, key, digest, at)
          VALUES (${tenant}, ${key}, ${digest}, ${at}) ON CONFLICT DO NOTHING RETURNING key`) as unknown[]
        if (added.length > 0) return { is: "new" }
        const rows = (await transaction`SELECT digest, status, body FROM idempotency
          WHERE tenant = ${tenant} AND key = ${key}`) as unknown[]
        return rows.length === 0 ? { is: "running" } : readCall(rows[0], digest)
      }),
    settle: async (tenant, key, status, body, keep) => {
      if (keep)
        await sql`UPDATE idempotency SET status = ${status}, body = ${body} WHERE tenant = ${tenant} AND key = ${key}`
      else await sql`DELETE FROM idempotency WHERE tenant = ${tenant} AND key = ${key}`
    },
    addSnapshot: async ({ id, session, createdAt }) => {
      await sql`INSERT INTO snapshots (id, session, created_at) VALUES (${id}, ${session}, ${createdAt})
        ON CONFLICT DO NOTHING`
    },
    snapshots: async () => {
      const rows = (await sql`SELECT * FROM snapshots ORDER BY created_at`) as unknown[]
      return rows.map(readSnapshot)
    },
    dropSnapshot: async (id) => {
      await sql`DELETE FROM snapshots WHERE id = ${id}`
    },
    purge: async (at) => {
      await sql`DELETE FROM leases WHERE until <= ${at}`
      await sql`DELETE FROM idempotency WHERE at <= ${at - KEEP_ANSWER_MS}`
    },
    forget: async (id) => {
      await sql`DELETE FROM sandbox_sessions WHERE id = ${id}`
    },
    close: () => sql.close(),
  }
}
