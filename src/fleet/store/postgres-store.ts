/**
 * The fleet's store on PostgreSQL, for many replicas. A change holds a transaction-level advisory lock for the few
 * milliseconds of a read and a write, never across a provider's call, so a connection pool in transaction mode works too.
 */
import type { SQL } from "bun"
import { systemClock, within } from "../../lib/clock.ts"
import type { Life } from "../core/life.ts"
import { rowOf } from "./life-row.ts"
import { isReady } from "../core/pool.ts"
import { DAY_MS, dayOf, keepsAdmission } from "../core/quota.ts"
import type { StoredSnapshot } from "../core/snapshots.ts"
import { announced, createChanges } from "./changes.ts"
import type { FleetStore, NewSession, RememberedCall, StoredSession } from "./ports.ts"
import { listenForChanges } from "./postgres-listen.ts"
import { LOCK_TIMEOUT_MS, lockOwner, postgresCounts } from "./postgres-counts.ts"
import { changeRecords, moveRecords, postgresRecords, recordAdded } from "./postgres-records.ts"
import { setUpPostgres } from "./postgres-schema.ts"
import { leaveVolume, postgresVolumes } from "./postgres-volumes.ts"
import {
  BACKSTOP_MS,
  changed,
  KEEP_ANSWER_MS,
  KEEP_COUNTS_MS,
  LOST_CALL_MS,
  POLL_MS,
  readCall,
  readPhase,
  readSession,
  readSnapshot,
} from "./row.ts"

const MAX_CONNECTIONS = 4
const CONNECT_SECONDS = 15
/** A server that accepts connections and does not answer must not keep the program from starting for any time. */
const SET_UP_MS = 45_000

export const openPostgresStore = async (
  url: string,
  connectSeconds = CONNECT_SECONDS,
): Promise<FleetStore> => {
  const sql = new Bun.SQL({
    url,
    max: MAX_CONNECTIONS,
    connectionTimeout: connectSeconds,
    // A connection pool in transaction mode gives the next statement another server connection, on which the same name
    // is another client's statement. Without names a change takes about 0.3 ms more.
    prepare: false,
  })
  try {
    if (!(await within(systemClock, SET_UP_MS, setUpPostgres(sql))))
      throw new Error("it does not answer")
  } catch (error) {
    await sql.close({ timeout: 0 }).catch(() => {})
    const { host } = new URL(url)
    const why = error instanceof Error ? error.message : String(error)
    throw new Error(`the database at ${host} (DATABASE_URL) cannot be used: ${why}`, {
      cause: error,
    })
  }

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

  const add = async (on: SQL, session: NewSession, life: Life, at: number) => {
    const inserted = (await on`INSERT INTO sandbox_sessions
        (id, tenant, thread_key, provider, environment, life, ref, rev, created_at, updated_at, kind, pool_key)
      VALUES (${session.id}, ${session.tenant}, ${session.threadKey ?? null}, ${session.provider},
        ${JSON.stringify(session.environment)}, ${JSON.stringify(rowOf(life))}, ${life.ref ?? null}, 0, ${at}, ${at},
        ${session.kind ?? "hub"}, ${session.poolKey ?? null})
      ON CONFLICT DO NOTHING RETURNING id`) as unknown[]
    const stored =
      (await byThread(session.tenant, session.threadKey, on)) ?? (await byId(session.id, on))
    if (!stored) throw new Error(`the session ${session.id} was not stored`)
    if (inserted.length > 0) await recordAdded(on, stored, at)
    return stored
  }

  const activeOf = async (tenant: string, on: SQL = sql): Promise<readonly StoredSession[]> => {
    const rows = (await on`SELECT * FROM sandbox_sessions WHERE tenant = ${tenant}
      AND (ref IS NOT NULL OR caller IS NOT NULL OR admitted = 1)`) as unknown[]
    return rows.map(readSession)
  }
  const addSnapshot = async (on: SQL, { id, session, createdAt, ref }: StoredSnapshot) => {
    await on`INSERT INTO snapshots (id, session, created_at, ref)
      VALUES (${id}, ${session}, ${createdAt}, ${ref ?? null}) ON CONFLICT DO NOTHING`
  }

  const changes = createChanges()
  const { channel, payloadOf, isHeard, stop } = listenForChanges(sql, changes)

  const store: Omit<FleetStore, "watch"> = {
    ...postgresRecords(sql),
    ...postgresVolumes(sql),
    ...postgresCounts(sql),
    pollMs: () => (isHeard() ? BACKSTOP_MS : POLL_MS),
    deployment: async () => {
      const rows = (await sql`SELECT id FROM deployment`) as readonly { readonly id: string }[]
      return String(rows[0]?.id)
    },
    add: (session, life, at) => sql.begin((transaction) => add(transaction, session, life, at)),
    replace: (session, life, at) =>
      sql.begin(async (transaction) => {
        await transaction.unsafe(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
        await transaction`SELECT pg_advisory_xact_lock(hashtextextended(${session.id}, 0))`
        await transaction`DELETE FROM sandbox_sessions WHERE id = ${session.id}
          RETURNING pg_notify(${channel}, ${payloadOf(session.id)})`
        return add(transaction, session, life, at)
      }),
    find: (id) => byId(id),
    findThread: (tenant, threadKey) => byThread(tenant, threadKey),
    findRef: async (ref) => first(await sql`SELECT * FROM sandbox_sessions WHERE ref = ${ref}`),
    page: async (after, limit) => {
      const rows = (await sql`SELECT * FROM sandbox_sessions
        WHERE (created_at, id) > (${after?.createdAt ?? -1}, ${after?.id ?? ""})
        ORDER BY created_at, id LIMIT ${limit}`) as unknown[]
      return rows.map(readSession)
    },
    activeOf: (tenant) => activeOf(tenant),
    phases: async () => {
      const rows = (await sql`SELECT provider, life::json ->> 'phase' AS phase, count(*) AS count
        FROM sandbox_sessions WHERE life::json ->> 'phase' <> 'ended' GROUP BY 1, 2`) as unknown[]
      return rows.map(readPhase)
    },
    present: async () => {
      const rows = (await sql`SELECT * FROM sandbox_sessions WHERE life::json ->> 'phase' <> 'ended'
        ORDER BY created_at, id`) as unknown[]
      return rows.map(readSession)
    },
    endedToTidy: async (endedBefore, at, limit) => {
      const rows = (await sql`SELECT * FROM sandbox_sessions WHERE life::json ->> 'phase' = 'ended'
          AND tidy_at IS NULL AND updated_at <= ${endedBefore}
        UNION ALL SELECT * FROM sandbox_sessions WHERE life::json ->> 'phase' = 'ended'
          AND tidy_at <= ${at} LIMIT ${limit}`) as unknown[]
      return rows.map(readSession)
    },
    tidyAgain: async (id, at) => {
      await sql`UPDATE sandbox_sessions SET tidy_at = ${at} WHERE id = ${id}`
    },
    forgetEnded: async ({ id, rev }) => {
      await sql`DELETE FROM sandbox_sessions WHERE id = ${id} AND rev = ${rev}
        AND life::json ->> 'phase' = 'ended'`
    },
    pooled: async () => {
      const rows =
        (await sql`SELECT * FROM sandbox_sessions WHERE kind IN ('pool', 'claimed')`) as unknown[]
      return rows.map(readSession)
    },
    claim: (poolKey, { tenant, threadKey, among, creator, heldUntil, hasRoom }, at) =>
      sql.begin(async (transaction) => {
        await transaction.unsafe(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
        // Two claims for one thread: the second finds the session of the first.
        if (threadKey !== undefined) {
          const thread = JSON.stringify([tenant, threadKey])
          await transaction`SELECT pg_advisory_xact_lock(hashtextextended(${thread}, 1))`
        }
        const known = await byThread(tenant, threadKey, transaction)
        if (known) return known
        if (hasRoom) {
          await lockOwner(transaction, tenant)
          if (!hasRoom(await activeOf(tenant, transaction))) return undefined
        }
        const rows = (await transaction`SELECT id FROM sandbox_sessions WHERE kind = 'pool'
          AND pool_key = ${poolKey} ORDER BY created_at, id`) as readonly { readonly id: string }[]
        for (const { id } of rows) {
          if (among && !among.includes(id)) continue
          // Held by a change of this session or by another claim, which then takes it: the next one is tried.
          const [lock] =
            (await transaction`SELECT pg_try_advisory_xact_lock(hashtextextended(${id}, 0))
            AS held`) as readonly { readonly held: boolean }[]
          const found = lock?.held === true ? await byId(id, transaction) : undefined
          if (found?.kind !== "pool" || !isReady(found.life)) continue
          await transaction`UPDATE sandbox_sessions SET kind = 'claimed', tenant = ${tenant},
            thread_key = ${threadKey ?? null}, creator = ${creator ?? null}, held_until = ${heldUntil ?? null},
            rev = rev + 1, updated_at = ${at} WHERE id = ${id}
            RETURNING pg_notify(${channel}, ${payloadOf(id)})`
          await moveRecords(transaction, id, tenant, at)
          return byId(id, transaction)
        }
        return undefined
      }),
    unclaim: (id, poolTenant, at) =>
      sql.begin(async (transaction) => {
        await transaction.unsafe(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
        await transaction`SELECT pg_advisory_xact_lock(hashtextextended(${id}, 0))`
        const rows =
          (await transaction`UPDATE sandbox_sessions SET kind = 'pool', tenant = ${poolTenant},
          thread_key = NULL, creator = NULL, held_until = NULL WHERE id = ${id} AND kind = 'claimed'
          RETURNING pg_notify(${channel}, ${payloadOf(id)})`) as unknown[]
        if (rows.length > 0) await moveRecords(transaction, id, poolTenant, at)
      }),
    bind: async (id) => {
      await sql`UPDATE sandbox_sessions SET kind = 'hub', creator = NULL, held_until = NULL
        WHERE id = ${id} AND kind = 'claimed'
        RETURNING pg_notify(${channel}, ${payloadOf(id)})`
    },
    change: (id, at, decide) =>
      sql.begin(async (transaction) => {
        await transaction.unsafe(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
        await transaction`SELECT pg_advisory_xact_lock(hashtextextended(${id}, 0))`
        const session = await byId(id, transaction)
        const change = session && decide(session)
        if (!change) return session
        const written =
          (await transaction`UPDATE sandbox_sessions SET life = ${JSON.stringify(rowOf(change.life))},
            ref = ${change.life.ref ?? null}, rev = rev + 1,
            caller = ${change.caller ?? null}, call_until = ${change.callUntil ?? null},
            due_at = ${change.dueAt ?? null}, admitted = admitted * ${Number(keepsAdmission(change.life))}::int,
            updated_at = ${at} WHERE id = ${id}
            RETURNING pg_notify(${channel}, ${payloadOf(id)})`) as unknown[]
        // The row was deleted meanwhile: nothing is recorded, so no call may be made.
        if (written.length === 0) return undefined
        if (change.records) await changeRecords(transaction, id, at, change.records)
        if (change.snapshot) await addSnapshot(transaction, change.snapshot)
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
    admit: ({ id, tenant }, number, decide) =>
      sql.begin(async (transaction) => {
        await transaction.unsafe(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
        await lockOwner(transaction, tenant)
        const refusal = decide(await activeOf(tenant, transaction))
        if (refusal) return refusal
        await transaction`UPDATE sandbox_sessions SET admitted = 1 WHERE id = ${id}
          AND (life::json #>> '{pending,number}')::int = ${number}`
        return undefined
      }),
    addSnapshot: (snapshot) => addSnapshot(sql, snapshot),
    snapshots: async () => {
      const rows = (await sql`SELECT * FROM snapshots ORDER BY created_at`) as unknown[]
      return rows.map(readSnapshot)
    },
    snapshotOf: async (ref) => {
      const rows = (await sql`SELECT * FROM snapshots WHERE ref = ${ref}
        ORDER BY created_at DESC LIMIT 1`) as unknown[]
      return rows.map(readSnapshot).at(0)
    },
    dropSnapshot: async (id) => {
      await sql`DELETE FROM snapshots WHERE id = ${id}`
    },
    purge: async (at) => {
      await sql`DELETE FROM leases WHERE until <= ${at}`
      await sql`DELETE FROM idempotency WHERE at <= ${at - KEEP_ANSWER_MS}`
      await sql`DELETE FROM creates WHERE at <= ${at - DAY_MS}`
      await sql`DELETE FROM running_seconds WHERE day < ${dayOf(at)}`
      await sql`DELETE FROM prompt_counts WHERE at <= ${at - KEEP_COUNTS_MS}`
    },
    forget: (id, leftAt) =>
      sql.begin(async (transaction) => {
        if (leftAt !== undefined) await leaveVolume(transaction, id, leftAt)
        await transaction`DELETE FROM sandbox_sessions WHERE id = ${id}
          RETURNING pg_notify(${channel}, ${payloadOf(id)})`
      }),
    close: async () => {
      await stop()
      await sql.close()
    },
  }
  return announced(store, changes)
}
