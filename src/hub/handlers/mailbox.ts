/** Notifications from a session to another session, a user or a handle. */
import type { Sql } from "../session/ports.ts"
import { mailRow, placeRow, selectAll, selectOne } from "../shared-store/rows.ts"
import { Refusal, type StoreHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"

export const mailboxHandlers = (
  sql: Sql,
  { now, newId }: HandlerContext,
): Pick<StoreHandlers, "mailbox-send" | "mailbox-check"> => ({
  "mailbox-send": (mail, { session }) => {
    const receivers = [mail.toSessionId, mail.toUserId, mail.toHandle].filter(
      (to) => to !== undefined,
    )
    if (receivers.length !== 1) {
      throw new Refusal("give exactly one of toSessionId, toUserId and toHandle")
    }
    if (mail.replyToId !== undefined && !placeOf(sql, mail.replyToId)) {
      throw new Refusal(`there is no notification ${mail.replyToId}`)
    }
    const id = newId()
    sql.run(
      `INSERT INTO mailbox (id, from_session, to_session, to_user, to_handle, type, content, context_session,
         context_task, reply_to, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      session,
      mail.toSessionId ?? null,
      mail.toUserId ?? null,
      mail.toHandle ?? null,
      mail.messageType ?? "message",
      mail.content,
      mail.contextSessionId ?? null,
      mail.contextTaskId ?? null,
      mail.replyToId ?? null,
      now(),
    )
    return { messageId: id }
  },
  "mailbox-check": ({ limit = 50, after }, { session }) => {
    const afterPlace = after === undefined ? 0 : placeOf(sql, after)
    const since = afterPlace === undefined ? Date.parse(after ?? "") : undefined
    if (since !== undefined && Number.isNaN(since)) {
      throw new Refusal("after: must be the id of a notification or a time")
    }
    const rows = selectAll(
      sql,
      mailRow,
      "SELECT * FROM mailbox WHERE to_session = ? AND place > ? AND created_at > ? ORDER BY place LIMIT ?",
      session,
      afterPlace ?? 0,
      since ?? -1,
      limit,
    )
    return {
      messages: rows.map((row) => ({
        id: row.id,
        fromSessionId: row.from_session,
        messageType: row.type,
        content: row.content,
        createdAt: row.created_at,
        ...(row.context_session !== null && { contextSessionId: row.context_session }),
        ...(row.context_task !== null && { contextTaskId: row.context_task }),
        ...(row.reply_to !== null && { replyToId: row.reply_to }),
      })),
    }
  },
})

const placeOf = (sql: Sql, id: string): number | undefined =>
  selectOne(sql, placeRow, "SELECT place FROM mailbox WHERE id = ?", id)?.place
