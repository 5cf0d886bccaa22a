/** What a change of the common tables has sessions do: kept until it is done, and done by its id only once. */
import type { Inbound } from "../../wire/frames/index.ts"
import type { Sql } from "../session/ports.ts"

export type Effect =
  | { readonly do: "order"; readonly frame: Inbound<"workflow-execute"> }
  | { readonly do: "cancel"; readonly executionId: string }
  | { readonly do: "prompt"; readonly content: string }

export interface Effects {
  /** Part of the transaction that asks for it. */
  readonly add: (id: string, session: string, effect: Effect) => void
  /** Hands out what waits, to be called when a transaction is through and when a host starts. */
  readonly deliver: () => Promise<void>
}

export type Deliver = (session: string, id: string, effect: Effect) => Promise<void>

export const createEffects = (
  sql: Sql,
  deliver: Deliver,
  failed: (error: unknown) => void,
): Effects => ({
  add: (id, session, effect) =>
    sql.run(
      "INSERT OR IGNORE INTO effects (id, session, effect) VALUES (?, ?, ?)",
      id,
      session,
      JSON.stringify(effect),
    ),
  deliver: async () => {
    // Who asks for it may be in the middle of a session's transaction, and that session may be the one to do it.
    await Promise.resolve()
    const waiting = sql.all<{ id: string; session: string; effect: string }>(
      "SELECT * FROM effects",
    )
    for (const { id, session, effect } of waiting) {
      try {
        await deliver(session, id, JSON.parse(effect) as Effect)
        sql.run("DELETE FROM effects WHERE id = ?", id)
      } catch (error) {
        failed(error)
      }
    }
  },
})
