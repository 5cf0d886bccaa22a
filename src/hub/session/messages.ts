/** The conversation: messages and their parts, one row each. A message that has ended does not change any more. */
import type { Message, PartData } from "../../wire/clients/conversation.ts"
import { type Changes, refOfPart } from "./changes.ts"
import { textOf } from "./client-views.ts"
import type { Sql } from "./ports.ts"
import {
  countRow,
  entityChannelRow,
  hasRow,
  idRow,
  lastPartRow,
  outputRow,
  partSizeRow,
  partTextRow,
  readRow,
  readRows,
} from "./rows.ts"
import type { SearchIndex } from "./search-index.ts"
import { growOutput } from "./tool-output.ts"
import { splitHalfCharacter, type StoredText } from "./text.ts"

export type MessageEnd = Exclude<Message["status"], "streaming">
export type DeltaKind = "text" | "reasoning"

export interface Messages {
  readonly isStreaming: (id: string) => boolean
  /** Adds the assistant message of a turn, unless it exists. */
  readonly begin: (id: string, promptId: string | undefined, channel: string) => void
  /** Adds a whole message, unless one with its id exists. */
  readonly add: (
    role: Message["role"],
    message: NewMessage,
    ids?: { readonly id: string; readonly promptId?: string },
  ) => void
  /** The row that the next delta of this part goes to, if there is one with room. */
  readonly openPart: (messageId: string, base: string) => { id: string; size: number } | undefined
  /** Starts a part, or the next row of it. */
  readonly startPart: (
    messageId: string,
    base: string,
    kind: DeltaKind,
    text: string,
    data?: PartData,
  ) => void
  /** Appends to a row. Clients are not notified: they got the deltas when they arrived. */
  readonly appendToPart: (messageId: string, id: string, text: string) => void
  /** The part that deltas without a part id belong to: the last one, unless another kind of part came after it. */
  readonly unnamedPart: (messageId: string, kind: DeltaKind) => string
  readonly setPart: (messageId: string, id: string, kind: string, data: unknown) => void
  /** Adds to the output of a running tool. `offset` is the position in the whole output; its last part is kept. */
  readonly addOutput: (messageId: string, id: string, offset: number, delta: string) => void
  /** The tool has a result: its output is not needed any more. Before `setPart`. */
  readonly clearOutput: (messageId: string, id: string) => void
  /** Withdraws parts with their text, for example the half answer of an attempt that the provider failed. */
  readonly removeParts: (messageId: string, bases: readonly string[]) => void
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

interface NewPartRow extends Partial<StoredText> {
  readonly messageId: string
  readonly id: string
  readonly base: string
  readonly kind: string
  readonly data?: string
}

/** A host's rows hold less than 2 MB, and a character may take three bytes. */
const ROW_CHARACTERS = 500_000

export const createMessages = (
  sql: Sql,
  changes: Changes,
  now: () => number,
  newId: () => string,
  index: SearchIndex,
): Messages => {
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

  const insertPart = (part: NewPartRow) => {
    const { messageId, id, base, kind, text = "", half = null, size = 0, data = null } = part
    const place = changes.record("part", refOfPart(messageId, id))
    sql.run(
      "INSERT INTO parts (message_id, id, base, place, kind, text, half, size, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
      messageId,
      id,
      base,
      place,
      kind,
      text,
      half,
      size,
      data,
    )
  }

  /** Reasoning lasts until the same agent does something else; without `child`, until the message ends. */
  const endReasoning = (
    messageId: string,
    next?: { readonly child: unknown; readonly base: string },
  ) => {
    const ended = readRows(
      sql,
      idRow,
      `UPDATE parts SET data = json_set(data, '$.endedAt', ?)
       WHERE message_id = ? AND kind = 'reasoning' AND json_extract(data, '$.startedAt') IS NOT NULL
         AND json_extract(data, '$.endedAt') IS NULL
         AND (? OR (base <> ? AND coalesce(json_extract(data, '$.childSessionId'), '') = ?)) RETURNING id`,
      now(),
      messageId,
      next === undefined ? 1 : 0,
      next?.base ?? "",
      typeof next?.child === "string" ? next.child : "",
    )
    for (const { id } of ended) changes.record("part", refOfPart(messageId, id))
  }

  const openPart = (messageId: string, base: string) => {
    const row = readRow(
      sql,
      partSizeRow,
      "SELECT id, half, size FROM parts WHERE message_id = ? AND base = ? ORDER BY place DESC LIMIT 1",
      messageId,
      base,
    )
    return row && row.size < ROW_CHARACTERS ? row : undefined
  }

  const startPart: Messages["startPart"] = (messageId, base, kind, text, data) => {
    const rows = readRow(
      sql,
      countRow,
      "SELECT count(*) AS count FROM parts WHERE message_id = ? AND base = ?",
      messageId,
      base,
    )
    let count = rows?.count ?? 0
    endReasoning(messageId, { child: data?.childSessionId, base })
    const stored = kind === "reasoning" ? { ...data, startedAt: now() } : data
    for (let start = 0; start < text.length || start === 0; start += ROW_CHARACTERS) {
      const piece = splitHalfCharacter(text.slice(start, start + ROW_CHARACTERS))
      const id = count === 0 ? base : `${base}~${count + 1}`
      insertPart({
        messageId,
        id,
        base,
        kind,
        ...piece,
        ...(stored && { data: JSON.stringify(stored) }),
      })
      count += 1
    }
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
    endReasoning(id)
    changes.record("message", id)
    changes.record("channel", ended.channel)
    return true
  }

  const removeParts = (messageId: string, bases: readonly string[]) => {
    for (const base of bases) {
      const removed = readRows(
        sql,
        idRow,
        "DELETE FROM parts WHERE message_id = ? AND base = ? AND kind IN ('text', 'reasoning') RETURNING id",
        messageId,
        base,
      )
      for (const { id } of removed) changes.record("part-removed", refOfPart(messageId, id))
    }
  }

  /** The final text is the truth: parts that agree with it stay, the first that does not gets the rest of it. */
  const replaceText = (id: string, finalText: string) => {
    const rows = readRows(
      sql,
      partTextRow,
      "SELECT base, text, half FROM parts WHERE message_id = ? AND kind = 'text' AND data IS NULL ORDER BY place",
      id,
    )
    const bases = [...new Set(rows.map(({ base }) => base))]
    const textOfBase = (base: string) =>
      rows.flatMap((row) => (row.base === base ? [textOf(row)] : [])).join("")
    const isInOrder = bases.map(textOfBase).join("") === rows.map(textOf).join("")
    let kept = 0
    const agreeing = isInOrder
      ? bases.findIndex((base) => {
          const text = textOfBase(base)
          if (!finalText.startsWith(text, kept)) return true
          kept += text.length
          return false
        })
      : 0
    const rest = finalText.slice(kept)
    const [wrong, ...later] = agreeing === -1 ? [] : bases.slice(agreeing)
    removeParts(id, later)
    if (wrong === undefined) {
      if (rest !== "") startPart(id, bases.at(-1) ?? "text", "text", rest)
    } else if (rest === "") removeParts(id, [wrong])
    else rewritePart(id, wrong, rest)
  }

  /** In place: the text stays where it was among the other parts, for example before a tool call. */
  const rewritePart = (messageId: string, base: string, text: string) => {
    const piece = splitHalfCharacter(text.slice(0, ROW_CHARACTERS))
    const others = readRows(
      sql,
      idRow,
      "DELETE FROM parts WHERE message_id = ? AND base = ? AND id <> base RETURNING id",
      messageId,
      base,
    )
    for (const { id } of others) changes.record("part-removed", refOfPart(messageId, id))
    sql.run(
      "UPDATE parts SET text = ?, half = ?, size = ? WHERE message_id = ? AND id = ?",
      piece.text,
      piece.half,
      piece.size,
      messageId,
      base,
    )
    changes.record("part", refOfPart(messageId, base))
    if (text.length > ROW_CHARACTERS) startPart(messageId, base, "text", text.slice(ROW_CHARACTERS))
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
        startPart(id, "text", "text", content)
        index.add(id)
      }
      if (extra === undefined) return
      const data = JSON.stringify(extra)
      insertPart({ messageId: id, id: "extra", base: "extra", kind: "extra", data })
    },
    openPart,
    startPart,
    removeParts,
    appendToPart: (messageId, id, text) => {
      const row = readRow(
        sql,
        partSizeRow,
        "SELECT id, half, size FROM parts WHERE message_id = ? AND id = ?",
        messageId,
        id,
      )
      if (!row) return
      const half = row.half === null ? "" : String.fromCharCode(row.half)
      const piece = splitHalfCharacter(half + text)
      sql.run(
        "UPDATE parts SET text = text || ?, half = ?, size = ? WHERE message_id = ? AND id = ?",
        piece.text,
        piece.half,
        row.size + text.length,
        messageId,
        id,
      )
      changes.recordGrowth(messageId, id, row.size)
    },
    unnamedPart: (messageId, kind) => {
      const last = readRow(
        sql,
        lastPartRow,
        "SELECT base, kind, place FROM parts WHERE message_id = ? ORDER BY place DESC LIMIT 1",
        messageId,
      )
      return last?.kind === kind ? last.base : `${kind}-${(last?.place ?? 0) + 1}`
    },
    setPart: (messageId, id, kind, value) => {
      const data = JSON.stringify(value)
      const exists = hasRow(
        sql,
        "UPDATE parts SET data = ? WHERE message_id = ? AND id = ? RETURNING id",
        data,
        messageId,
        id,
      )
      if (exists) return void changes.record("part", refOfPart(messageId, id))
      const { childSessionId } = (value ?? {}) as { readonly childSessionId?: unknown }
      endReasoning(messageId, { child: childSessionId, base: id })
      insertPart({ messageId, id, base: id, kind, data })
    },
    addOutput: (messageId, id, offset, delta) => {
      if (!isStreaming(messageId)) return
      const row = readRow(
        sql,
        outputRow,
        "SELECT text, size FROM parts WHERE message_id = ? AND id = ? AND kind = 'tool'",
        messageId,
        id,
      )
      if (!row) return
      const { text, isAppended, size } = growOutput(row, offset, delta)
      sql.run(
        "UPDATE parts SET text = ?, size = ? WHERE message_id = ? AND id = ?",
        text,
        size,
        messageId,
        id,
      )
      if (isAppended) changes.recordOutput(messageId, id, row.text.length)
      else changes.record("part", refOfPart(messageId, id))
    },
    clearOutput: (messageId, id) =>
      sql.run(
        "UPDATE parts SET text = '', size = 0 WHERE message_id = ? AND id = ? AND kind = 'tool'",
        messageId,
        id,
      ),
    end: (id, status, error, finalText) => {
      if (!endMessage(id, status, error)) return
      if (finalText !== undefined) replaceText(id, finalText)
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
