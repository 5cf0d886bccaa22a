/** Notifications from session to session, to a user, or to a handle. */
import { one, type Sql } from "../session/ports.ts"
import { Refusal, type TableHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"

interface MailRow {
  place: number
  id: string
  from_session: string
  type: string
  content: string
  context_session: string | null
  context_task: string | null
  reply_to: string | null
  created_at: number
}

export const mailboxHandlers = (
  sql: Sql,
  { now, newId }: HandlerContext,
): Pick<TableHandlers, "mailbox-send" | "mailbox-check"> => ({
  "mailbox-send": (mail, { session }) => {
    const receivers = [mail.toSessionId, mail.toUserId, mail.toHandle].filter(
      (to) => to !== undefined,
    )
    if (receivers.length !== 1) {
      throw new Refusal("exactly one of toSessionId, toUserId and toHandle must be given")
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
    const from = after === undefined ? 0 : placeOf(sql, after)
    const since = from === undefined ? Date.parse(after ?? "") : undefined
    if (since !== undefined && Number.isNaN(since)) {
      throw new Refusal("after: must be a notification's id or a time")
    }
    const rows = sql.all<MailRow>(
      "SELECT * FROM mailbox WHERE to_session = ? AND place > ? AND created_at > ? ORDER BY place LIMIT ?",
      session,
      from ?? 0,
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
  one(sql.all<{ place: number }>("SELECT place FROM mailbox WHERE id = ?", id))?.place
