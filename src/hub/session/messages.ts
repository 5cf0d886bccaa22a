/** The conversation: messages and their parts, one row each. A message that has ended does not change any more. */
import type { Message } from "../../wire/clients/conversation.ts"
import type { Changes } from "./changes.ts"
import { createMessageParts, type PartWrites } from "./message-parts.ts"
import type { Sql } from "./ports.ts"
import { entityChannelRow, hasRow, idRow, readRow, readRows } from "./rows.ts"
import type { SearchIndex } from "./search-index.ts"

export type MessageEnd = Exclude<Message["status"], "streaming">

export interface Messages extends PartWrites {
  readonly isStreaming: (id: string) => boolean
  /** Adds the assistant message of a turn, unless it exists. */
  readonly begin: (id: string, promptId: string | undefined, channel: string) => void
  /** Adds a whole message, unless one with its id exists. */
  readonly add: (
    role: Message["role"],
    message: NewMessage,
    ids?: { readonly id: string; readonly promptId?: string },
  ) => void
  /** Afterwards the text of the message is `finalText`, if that is given. */
  readonly end: (id: string, status: MessageEnd, error?: string, finalText?: string) => void
  /** Ends the streaming messages of a prompt that is not worked on any more; returns their ids. */
  readonly endAllOf: (promptId: string, status: MessageEnd, error: string) => readonly string[]
  readonly remove: (ids: readonly string[]) => void
  /** Something that clients see with the message has changed, for example what it has used. */
  readonly touch: (id: string) => void
  /** After a rollback: the rows are read again. */
  readonly discardCache: () => void
}

export interface NewMessage {
  readonly channel: string
  readonly content: string
  readonly error?: string
  readonly author?: unknown
  readonly extra?: unknown
}

interface NewMessageRow {
  readonly id: string
  readonly role: Message["role"]
  readonly channel: string
  readonly status: Message["status"]
  readonly promptId?: string | undefined
  readonly error?: string | undefined
  readonly author?: unknown
}

export const createMessages = (
  sql: Sql,
  changes: Changes,
  now: () => number,
  newId: () => string,
  index: SearchIndex,
): Messages => {
  const parts = createMessageParts(sql, changes, now)
  /** Messages that are known to stream: a cache, because every delta asks and a query is slow. */
  const streaming = new Set<string>()
  const isStreaming = (id: string): boolean => {
    if (streaming.has(id)) return true
    const found = hasRow(sql, "SELECT 1 FROM messages WHERE id = ? AND status = 'streaming'", id)
    if (found) streaming.add(id)
    return found
  }
  const insert = ({ id, role, channel, status, promptId, error, author }: NewMessageRow) => {
    if (hasRow(sql, "SELECT 1 FROM messages WHERE id = ?", id)) return false
    const at = now()
    const place = changes.record("message", id)
    sql.run(
      `INSERT INTO messages (id, place, role, channel, prompt_id, status, error, author, created_at, ended_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      place,
      role,
      channel,
      promptId ?? null,
      status,
      error ?? null,
      author === undefined ? null : JSON.stringify(author),
      at,
      status === "streaming" ? null : at,
    )
    changes.record("channel", channel)
    return true
  }

  const endMessage = (id: string, status: MessageEnd, error: string | undefined): boolean => {
    streaming.delete(id)
    const ended = readRow(
      sql,
      entityChannelRow,
      "UPDATE messages SET status = ?, error = ?, ended_at = ? WHERE id = ? AND status = 'streaming' RETURNING id, channel",
      status,
      error ?? null,
      now(),
      id,
    )
    if (!ended) return false
    parts.endAllReasoning(id)
    changes.record("message", id)
    changes.record("channel", ended.channel)
    return true
  }

  return {
    isStreaming,
    begin: (id, promptId, channel) =>
      void insert({ id, role: "assistant", channel, status: "streaming", promptId }),
    add: (
      role,
      { channel, content, error, author, extra },
      { id, promptId }: { readonly id: string; readonly promptId?: string } = { id: newId() },
    ) => {
      const status = error === undefined ? "done" : "error"
      if (!insert({ id, role, channel, status, promptId, error, author })) return
      if (content !== "") {
        parts.startPart(id, "text", "text", content)
        index.add(id)
      }
      if (extra !== undefined) parts.setPart(id, "extra", "extra", extra)
    },
    ...parts,
    addOutput: (messageId, ...output) => {
      if (isStreaming(messageId)) parts.addOutput(messageId, ...output)
    },
    end: (id, status, error, finalText) => {
      if (!endMessage(id, status, error)) return
      if (finalText !== undefined) parts.replaceText(id, finalText)
      index.add(id)
    },
    endAllOf: (promptId, status, error) => {
      const open = readRows(
        sql,
        idRow,
        "SELECT id FROM messages WHERE prompt_id = ? AND status = 'streaming'",
        promptId,
      )
      for (const { id } of open) {
        endMessage(id, status, error)
        index.add(id)
      }
      return open.map(({ id }) => id)
    },
    remove: (ids) => {
      for (const id of ids) {
        const removed = readRows(
          sql,
          entityChannelRow,
          "SELECT id, channel FROM messages WHERE id = ? OR prompt_id = ?",
          id,
          id,
        )
        for (const message of removed) {
          streaming.delete(message.id)
          index.remove(message.id)
          sql.run("DELETE FROM messages WHERE id = ?", message.id)
          sql.run("DELETE FROM parts WHERE message_id = ?", message.id)
          changes.record("removed", message.id)
          changes.record("channel", message.channel)
        }
      }
    },
    touch: (id) => {
      const row = readRow(
        sql,
        entityChannelRow,
        "SELECT id, channel FROM messages WHERE id = ?",
        id,
      )
      if (!row) return
      changes.record("message", id)
      changes.record("channel", row.channel)
    },
    discardCache: () => streaming.clear(),
  }
}
