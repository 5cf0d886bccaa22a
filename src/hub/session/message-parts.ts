/** The parts of messages: text, reasoning and tool calls, each in one row or, if it is long, in several. */
import type { PartData } from "../../wire/clients/conversation.ts"
import { type Changes, refOfPart } from "./changes.ts"
import { textOf } from "./client-views.ts"
import type { Sql } from "./ports.ts"
import {
  countRow,
  hasRow,
  idRow,
  lastPartRow,
  outputRow,
  partSizeRow,
  partTextRow,
  readRow,
  readRows,
} from "./rows.ts"
import { splitHalfCharacter, type StoredText } from "./text.ts"
import { growOutput } from "./tool-output.ts"

export type DeltaKind = "text" | "reasoning"

export interface PartWrites {
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
}

export interface MessageParts extends PartWrites {
  /** The message ends, and with it every reasoning of it. */
  readonly endAllReasoning: (messageId: string) => void
  /** Afterwards the text of the message is `finalText`. */
  readonly replaceText: (messageId: string, finalText: string) => void
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

export const createMessageParts = (sql: Sql, changes: Changes, now: () => number): MessageParts => {
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

  /** Reasoning lasts until the same agent does something else; without `next`, until the message ends. */
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

  const startPart: PartWrites["startPart"] = (messageId, base, kind, text, data) => {
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
    openPart,
    startPart,
    removeParts,
    replaceText,
    endAllReasoning: (messageId) => endReasoning(messageId),
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
  }
}
