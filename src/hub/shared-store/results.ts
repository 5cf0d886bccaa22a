/**
 * Results of what must happen once: requests of a session, reports of a runner, deliveries to a webhook. A repeated id gets
 * the stored result. Call inside the transaction of the work.
 */
import type { HandlerContext } from "../handlers/handler-context.ts"
import type { Sql } from "../session/ports.ts"
import { storedResult } from "../session/stored-result.ts"
import { requestResultRow, selectOne } from "./rows.ts"

export interface Results {
  /** Runs the work, or returns its stored result. `from` and `id` together name it. Work that throws stores nothing. */
  readonly once: (
    key: { readonly from: string; readonly id: string },
    type: string,
    work: () => Record<string, unknown>,
  ) => Record<string, unknown>
  /** The same for what comes from outside: an id of any length, and the newest `MAX_OUTSIDE` results of `from` are kept. */
  readonly onceFromOutside: (from: string, id: string, work: () => void) => void
  /** Deletes the results of `from`. */
  readonly forget: (from: string) => void
}

/** Git hosts repeat a delivery within hours: this many calls of one webhook take longer. */
export const MAX_OUTSIDE = 1000

export const createResults = (
  sql: Sql,
  { now, digest }: Pick<HandlerContext, "now" | "digest">,
): Results => {
  const once: Results["once"] = ({ from, id }, type, work) => {
    const key = `${from}/${id}`
    const known = selectOne(
      sql,
      requestResultRow,
      "SELECT result FROM rpc WHERE request_id = ?",
      key,
    )
    if (known) return known.result
    const result = work()
    sql.run(
      "INSERT INTO rpc (request_id, result, at) VALUES (?, ?, ?)",
      key,
      JSON.stringify(storedResult(type, result)),
      now(),
    )
    return result
  }
  // "0" follows "/".
  const ofSender = (from: string) => [`${from}/`, `${from}0`] as const
  return {
    once,
    onceFromOutside: (from, id, work) => {
      once({ from, id: digest(id) }, "outside", () => {
        work()
        return {}
      })
      sql.run(
        `DELETE FROM rpc WHERE rowid IN (SELECT rowid FROM rpc WHERE request_id >= ? AND request_id < ?
           ORDER BY rowid DESC LIMIT -1 OFFSET ?)`,
        ...ofSender(from),
        MAX_OUTSIDE,
      )
    },
    forget: (from) =>
      sql.run("DELETE FROM rpc WHERE request_id >= ? AND request_id < ?", ...ofSender(from)),
  }
}
