/** What is counted for quotas and counters, on PostgreSQL. */
import type { SQL } from "bun"
import { DAY_MS } from "../core/quota.ts"
import type { CountsPort } from "./ports.ts"
import { readCounts, readSeconds, readTime } from "./row.ts"

/** A change waits this long for another one of the same session. */
export const LOCK_TIMEOUT_MS = 5000

/** What an owner starts, claims and has counted is decided one after another. */
export const lockOwner = (on: SQL, tenant: string) =>
  on`SELECT pg_advisory_xact_lock(hashtextextended(${tenant}, 2))`

export const postgresCounts = (sql: SQL): CountsPort => ({
  creates: async (tenant, after) => {
    const rows =
      (await sql`SELECT at FROM creates WHERE tenant = ${tenant} AND at > ${after}`) as unknown[]
    return rows.map(readTime)
  },
  countCreate: ({ tenant, session, generation, at }, decide) =>
    sql.begin(async (transaction) => {
      await transaction.unsafe(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
      await lockOwner(transaction, tenant)
      const known = (await transaction`SELECT at FROM creates
        WHERE session = ${session} AND generation = ${generation}`) as unknown[]
      if (known.length > 0) return undefined
      const times = (await transaction`SELECT at FROM creates
        WHERE tenant = ${tenant} AND at > ${at - DAY_MS}`) as unknown[]
      const refusal = decide(times.map(readTime))
      if (refusal) return refusal
      await transaction`INSERT INTO creates VALUES (${session}, ${generation}, ${tenant}, ${at})`
      return undefined
    }),
  uncountCreate: async (session, generation) => {
    await sql`DELETE FROM creates WHERE session = ${session} AND generation = ${generation}`
  },
  countPrompts: (session, at, decide) =>
    sql.begin(async (transaction) => {
      await transaction.unsafe(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
      await transaction`SELECT pg_advisory_xact_lock(hashtextextended(${session}, 3))`
      const rows =
        (await transaction`SELECT counts FROM prompt_counts WHERE session = ${session}`) as unknown[]
      const counts = decide(rows.length === 0 ? undefined : readCounts(rows[0]))
      if (counts)
        await transaction`INSERT INTO prompt_counts VALUES (${session}, ${JSON.stringify(counts)}, ${at})
          ON CONFLICT (session) DO UPDATE SET counts = excluded.counts, at = excluded.at`
      else await transaction`DELETE FROM prompt_counts WHERE session = ${session}`
    }),
  secondsOf: async (tenant, day) => {
    const rows = (await sql`SELECT seconds FROM running_seconds
      WHERE tenant = ${tenant} AND day = ${day}`) as unknown[]
    return rows.length === 0 ? 0 : readSeconds(rows[0])
  },
})
