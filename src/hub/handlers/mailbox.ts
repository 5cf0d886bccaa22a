/**
 * Notifications from a session to another session, a user or a handle. A handle belongs to one session, which reads its
 * mail. The mail of a user is read by the sessions that work for that user, except by the one that sent it.
 */
import type { Sql } from "../session/ports.ts"
import type { Effects } from "../shared-store/effects.ts"
import { mayWriteTo } from "../access/mail-reader.ts"
import {
  handleRow,
  mailRow,
  type Notification,
  placeRow,
  selectAll,
  selectOne,
} from "../shared-store/rows.ts"
import { Refusal, type StoreHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"

/** Clients get the start of a long notification; `mailbox-check` returns all of it. */
const SHOWN_CHARACTERS = 4000

export const mailboxHandlers = (
  sql: Sql,
  { now, newId }: HandlerContext,
  effects: Effects,
): Pick<StoreHandlers, "mailbox-send" | "mailbox-check"> => ({
  "mailbox-send": (mail, { session, reader }) => {
    const receivers = [mail.toSessionId, mail.toUserId, mail.toHandle].filter(
      (to) => to !== undefined,
    )
    if (receivers.length !== 1) {
      throw new Refusal("give exactly one of toSessionId, toUserId and toHandle")
    }
    if (mail.replyToId !== undefined && !placeOf(sql, mail.replyToId)) {
      throw new Refusal(`there is no notification ${mail.replyToId}`)
    }
    const toUser = mail.toUserId?.replace(/^user:/, "")
    if (toUser !== undefined && !mayWriteTo(reader, toUser))
      throw new Refusal(`toUserId: ${toUser} has no session that could read it`)
    const toSession = mail.toSessionId ?? sessionOfHandle(sql, mail.toHandle)
    const id = newId()
    const at = now()
    sql.run(
      `INSERT INTO mailbox (id, from_session, to_session, to_user, to_handle, type, content, context_session,
         context_task, reply_to, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      session,
      toSession ?? null,
      toUser ?? null,
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
      ...(toUser !== undefined && { toUserId: toUser }),
      ...(mail.toHandle !== undefined && { toHandle: mail.toHandle }),
    }
    // People read it in the session that sent it, and in the one that it is for.
    for (const shown of new Set([session, toSession ?? session])) {
      effects.add(`${id}/${shown}`, shown, { do: "notify", notification })
    }
    return { messageId: id }
  },
  "mailbox-check": ({ limit = 50, after }, { session, reader: { user } }) => {
    const afterPlace = after === undefined ? 0 : placeOf(sql, after)
    const since = afterPlace === undefined ? Date.parse(after ?? "") : undefined
    if (since !== undefined && Number.isNaN(since)) {
      throw new Refusal("after: must be the id of a notification or a time")
    }
    const rows = selectAll(
      sql,
      mailRow,
      `SELECT * FROM mailbox WHERE (to_session = ?
           OR (to_user IS NOT NULL AND from_session <> ? AND (? IS NULL OR to_user = ?)))
         AND place > ? AND created_at > ? ORDER BY place LIMIT ?`,
      session,
      session,
      user,
      user,
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

const nameOfHandle = (handle: string): string => handle.replace(/^@/, "").toLowerCase()

export const setHandle = (sql: Sql, handle: string, session: string): void =>
  sql.run(
    "INSERT OR REPLACE INTO handles (handle, session) VALUES (?, ?)",
    nameOfHandle(handle),
    session,
  )

const sessionOfHandle = (sql: Sql, handle: string | undefined): string | undefined => {
  if (handle === undefined) return undefined
  const query = "SELECT session FROM handles WHERE handle = ?"
  const found = selectOne(sql, handleRow, query, nameOfHandle(handle))
  if (!found) throw new Refusal(`toHandle: there is no session with the handle ${handle}`)
  return found.session
}

const placeOf = (sql: Sql, id: string): number | undefined =>
  selectOne(sql, placeRow, "SELECT place FROM mailbox WHERE id = ?", id)?.place
