/**
 * Work that a transaction of the shared store requests from a session. It is stored in the same transaction and
 * deleted after delivery: a crash in between delivers it again with the same id, and the session ignores a known id.
 */
import type { Sql } from "../session/ports.ts"
import { type Effect, effectRow, readRow } from "./rows.ts"

export interface Effects {
  /** Call inside the transaction that causes the effect. */
  readonly add: (id: string, session: string, effect: Effect) => void
  /** Delivers all stored effects. Call after each commit and when the host starts. */
  readonly deliver: () => Promise<void>
}

export type Deliver = (session: string, id: string, effect: Effect) => Promise<void>

export const createEffects = (
  sql: Sql,
  deliver: Deliver,
  onFailure: (error: unknown) => void,
): Effects => ({
  add: (id, session, effect) =>
    sql.run(
      "INSERT OR IGNORE INTO effects (id, session, effect) VALUES (?, ?, ?)",
      id,
      session,
      JSON.stringify(effect),
    ),
  deliver: async () => {
    // The caller may be inside a transaction of the session that receives the effect. Let it finish first.
    await Promise.resolve()
    for (const row of sql.all<unknown>("SELECT * FROM effects")) {
      try {
        const { id, session, effect } = readRow(effectRow, row)
        await deliver(session, id, effect)
        sql.run("DELETE FROM effects WHERE id = ?", id)
      } catch (error) {
        onFailure(error)
      }
    }
  },
})
