/** What is counted for quotas and counters, on bun:sqlite. */
import type { Database } from "bun:sqlite"
import { DAY_MS } from "../core/quota.ts"
import type { CountsPort } from "./ports.ts"
import { readCounts, readSeconds, readTime } from "./row.ts"

export const sqliteCounts = (db: Database): CountsPort => ({
  creates: async (tenant, after) =>
    db.query("SELECT at FROM creates WHERE tenant = ? AND at > ?").all(tenant, after).map(readTime),
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
  countPrompts: async (session, at, decide) =>
    db
      .transaction(() => {
        const row = db.query("SELECT counts FROM prompt_counts WHERE session = ?").get(session)
        const counts = decide(row === null ? undefined : readCounts(row))
        if (counts)
          db.query("INSERT OR REPLACE INTO prompt_counts VALUES (?, ?, ?)").run(
            session,
            JSON.stringify(counts),
            at,
          )
        else db.query("DELETE FROM prompt_counts WHERE session = ?").run(session)
      })
      .immediate(),
  secondsOf: async (tenant, day) => {
    const row = db
      .query("SELECT seconds FROM running_seconds WHERE tenant = ? AND day = ?")
      .get(tenant, day)
    return row === null ? 0 : readSeconds(row)
  },
})
