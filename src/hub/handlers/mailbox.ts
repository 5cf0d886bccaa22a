/**
 * Notifications from a session to another session, a user or a handle. The store has one owner: its sessions work for the
 * users and handles that are written to, so each of them reads those notifications, except its own.
 */
import type { Sql } from "../session/ports.ts"
import type { Effects } from "../shared-store/effects.ts"
import { mailRow, type Notification, placeRow, selectAll, selectOne } from "../shared-store/rows.ts"
import { Refusal, type StoreHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"

/** Clients get the start of a long notification; `mailbox-check` returns all of it. */
const SHOWN_CHARACTERS = 4000

export const mailboxHandlers = (
  sql: Sql,
  { now, newId }: HandlerContext,
  effects: Effects,
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
    const at = now()
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
      at,
    )
    const notification: Notification = {
      id,
      fromSessionId: session,
      messageType: mail.messageType ?? "message",
      content: mail.content.slice(0, SHOWN_CHARACTERS).toWellFormed(),
      createdAt: at,
      ...(mail.toSessionId !== undefined && { toSessionId: mail.toSessionId }),
      ...(mail.toUserId !== undefined && { toUserId: mail.toUserId }),
      ...(mail.toHandle !== undefined && { toHandle: mail.toHandle }),
    }
    // People read it in the session that sent it, and in the one that it is for.
    for (const reader of new Set([session, mail.toSessionId ?? session])) {
      effects.add(`${id}/${reader}`, reader, { do: "notify", notification })
    }
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
      `SELECT * FROM mailbox WHERE (to_session = ? OR (to_session IS NULL AND from_session <> ?))
         AND place > ? AND created_at > ? ORDER BY place LIMIT ?`,
      session,
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
        ...(row.to_user !== null && { toUserId: row.to_user }),
        ...(row.to_handle !== null && { toHandle: row.to_handle }),
        ...(row.context_session !== null && { contextSessionId: row.context_session }),
        ...(row.context_task !== null && { contextTaskId: row.context_task }),
        ...(row.reply_to !== null && { replyToId: row.reply_to }),
      })),
    }
  },
})

const placeOf = (sql: Sql, id: string): number | undefined =>
  selectOne(sql, placeRow, "SELECT place FROM mailbox WHERE id = ?", id)?.place
