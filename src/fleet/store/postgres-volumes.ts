/** The volumes of sessions whose rows were deleted, on PostgreSQL. */
import type { SQL } from "bun"
import type { VolumesPort } from "./ports.ts"
import { readVolume } from "./row.ts"

/** In the transaction of the caller, before it deletes the row of the session. */
export const leaveVolume = async (on: SQL, session: string, at: number): Promise<void> => {
  await on`INSERT INTO left_volumes (session, provider, left_at)
      SELECT id, provider, ${at}::bigint FROM sandbox_sessions WHERE id = ${session}
    ON CONFLICT (session) DO UPDATE SET provider = excluded.provider, left_at = excluded.left_at, look_at = NULL`
}

export const postgresVolumes = (sql: SQL): VolumesPort => ({
  leftVolumes: async (leftBefore, at, limit) => {
    const rows = (await sql`SELECT * FROM left_volumes
      WHERE (look_at IS NULL AND left_at <= ${leftBefore}) OR look_at <= ${at}
      ORDER BY left_at LIMIT ${limit}`) as unknown[]
    return rows.map(readVolume)
  },
  lookAtVolume: async (session, at) => {
    await sql`UPDATE left_volumes SET look_at = ${at} WHERE session = ${session}`
  },
  dropVolume: async (session) => {
    await sql`DELETE FROM left_volumes WHERE session = ${session}`
  },
})
