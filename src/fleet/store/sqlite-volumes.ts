/** The volumes of sessions whose rows were deleted, on bun:sqlite. */
import type { Database } from "bun:sqlite"
import type { VolumesPort } from "./ports.ts"
import { readVolume } from "./row.ts"

export interface SqliteVolumes {
  readonly port: VolumesPort
  /** In the transaction of the caller, before it deletes the row of the session. */
  readonly leave: (session: string, at: number) => void
}

export const sqliteVolumes = (db: Database): SqliteVolumes => ({
  leave: (session, at) =>
    void db
      .query(
        `INSERT OR REPLACE INTO left_volumes (session, provider, left_at)
          SELECT id, provider, ? FROM sandbox_sessions WHERE id = ?`,
      )
      .run(at, session),
  port: {
    leftVolumes: async (leftBefore, at, limit) =>
      db
        .query(
          `SELECT * FROM left_volumes WHERE (look_at IS NULL AND left_at <= ?) OR look_at <= ?
            ORDER BY left_at LIMIT ?`,
        )
        .all(leftBefore, at, limit)
        .map(readVolume),
    lookAtVolume: async (session, at) =>
      void db.query("UPDATE left_volumes SET look_at = ? WHERE session = ?").run(at, session),
    dropVolume: async (session) =>
      void db.query("DELETE FROM left_volumes WHERE session = ?").run(session),
  },
})
