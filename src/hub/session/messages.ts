/** The conversation: messages and their parts, a row each. Ended messages do not change any more. */
import { type Changes, refOf } from "./changes.ts"
import { type PartRow, textOf } from "./client-views.ts"
import { one, type Sql, type SqlValue } from "./ports.ts"
import { cutText } from "./text.ts"

export type MessageEnd = "done" | "error" | "canceled"
export type WordKind = "text" | "reasoning"

export interface Messages {
  readonly isStreaming: (id: string) => boolean
  /** A turn begins to answer; a message that is there already is left as it is. */
  readonly begin: (id: string, promptId: string | undefined, channel: string) => void
  readonly say: (
    role: "user" | "assistant" | "system",
    saying: Saying,
    at?: { readonly id: string; readonly promptId?: string },
  ) => void
  /** The row that more words of this part go to, if there is one with room. */
  readonly openPart: (messageId: string, base: string) => { id: string; size: number } | undefined
  /** Words that start a part, or a row of it. */
  readonly startPart: (messageId: string, base: string, kind: WordKind, text: string) => void
  /** More words for a row that is there; clients have heard them. */
  readonly growPart: (messageId: string, id: string, text: string) => void
  /** The part that words without a name belong to: the last one, unless something else came after it. */
  readonly unnamedPart: (messageId: string, kind: WordKind) => string
  readonly putPart: (messageId: string, id: string, kind: string, data: unknown) => void
  readonly end: (id: string, status: MessageEnd, error?: string, finalText?: string) => void
  /** Ends what still streams of a prompt, because nobody works on it any more. */
  readonly endOf: (promptId: string, status: MessageEnd, error: string) => void
  readonly remove: (ids: readonly string[]) => void
  /** The rows are the truth: what is kept of them is read again. */
  readonly forget: () => void
}

export interface Saying {
  readonly channel: string
  readonly content: string
  readonly error?: string
  readonly author?: unknown
  readonly extra?: unknown
}

/** Rows stay far below the 2 MB that a host may set: a character may take three bytes. */
const ROW_CHARACTERS = 500_000

export const createMessages = (
  sql: Sql,
  changes: Changes,
  now: () => number,
  newId: () => string,
): Messages => {
  /** Messages that are known to stream: asked at every word, and a question to the database is dear. */
  const streaming = new Set<string>()
  const isStreaming = (id: string): boolean => {
    if (streaming.has(id)) return true
    const rows = sql.all("SELECT 1 FROM messages WHERE id = ? AND status = 'streaming'", id)
    if (rows.length > 0) streaming.add(id)
    return rows.length > 0
  }
  const insert = (id: string, role: string, channel: string, rest: Record<string, SqlValue>) => {
    const known = one(sql.all("SELECT 1 FROM messages WHERE id = ?", id))
    if (known) return false
    const at = now()
    const place = changes.note("message", id)
    const { promptId = null, status = "done", error = null, author = null } = rest
    sql.run(
      `INSERT INTO messages (id, place, role, channel, prompt_id, status, error, author, created_at, ended_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      place,
      role,
      channel,
      promptId,
      status,
      error,
      author,
      at,
      status === "streaming" ? null : at,
    )
    return true
  }

  const insertPart = (
    part: Pick<PartRow, "message_id" | "id" | "base" | "kind"> & Partial<PartRow>,
  ) => {
    const place = changes.note("part", refOf(part.message_id, part.id))
    const { text = "", half = null, size = 0, data = null } = part
    sql.run(
      "INSERT INTO parts (message_id, id, base, place, kind, text, half, size, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
      part.message_id,
      part.id,
      part.base,
      place,
      part.kind,
      text,
      half,
      size,
      data,
    )
  }

  const openPart = (messageId: string, base: string) => {
    const row = one(
      sql.all<{ id: string; size: number }>(
        "SELECT id, size FROM parts WHERE message_id = ? AND base = ? ORDER BY place DESC LIMIT 1",
        messageId,
        base,
      ),
    )
    return row && row.size < ROW_CHARACTERS ? row : undefined
  }

  const startPart = (messageId: string, base: string, kind: WordKind, text: string) => {
    const rows = one(
      sql.all<{ count: number }>(
        "SELECT count(*) AS count FROM parts WHERE message_id = ? AND base = ?",
        messageId,
        base,
      ),
    )
    let count = rows?.count ?? 0
    for (let start = 0; start < text.length || start === 0; start += ROW_CHARACTERS) {
      const piece = cutText(text.slice(start, start + ROW_CHARACTERS))
      const id = count === 0 ? base : `${base}~${count + 1}`
      insertPart({ message_id: messageId, id, base, kind, ...piece })
      count += 1
    }
  }

  const endRow = (id: string, status: MessageEnd, error: string | undefined) => {
    streaming.delete(id)
    const ended = sql.all(
      "UPDATE messages SET status = ?, error = ?, ended_at = ? WHERE id = ? AND status = 'streaming' RETURNING id",
      status,
      error ?? null,
      now(),
      id,
    )
    if (ended.length > 0) changes.note("message", id)
    return ended.length > 0
  }

  /** The runner's last word on the text: a peer without named parts may have lost some on the way. */
  const settleText = (id: string, finalText: string) => {
    const rows = sql.all<PartRow>(
      "SELECT * FROM parts WHERE message_id = ? AND kind = 'text' ORDER BY place",
      id,
    )
    if (rows.map(textOf).join("") === finalText || finalText === "") return
    if (rows.length > 1) return
    sql.run("DELETE FROM parts WHERE message_id = ? AND kind = 'text'", id)
    startPart(id, rows[0]?.base ?? "text", "text", finalText)
  }

  return {
    isStreaming,
    begin: (id, promptId, channel) =>
      void insert(id, "assistant", channel, { promptId: promptId ?? null, status: "streaming" }),
    say: (role, { channel, content, error, author, extra }, at = { id: newId() }) => {
      const made = insert(at.id, role, channel, {
        promptId: at.promptId ?? null,
        status: error === undefined ? "done" : "error",
        error: error ?? null,
        author: author === undefined ? null : JSON.stringify(author),
      })
      if (!made) return
      if (content !== "") startPart(at.id, "text", "text", content)
      if (extra !== undefined) {
        insertPart({
          message_id: at.id,
          id: "extra",
          base: "extra",
          kind: "extra",
          data: JSON.stringify(extra),
        })
      }
    },
    openPart,
    startPart,
    growPart: (messageId, id, text) => {
      const row = one(
        sql.all<PartRow>("SELECT * FROM parts WHERE message_id = ? AND id = ?", messageId, id),
      )
      if (!row) return
      const piece = cutText((row.half === null ? "" : String.fromCharCode(row.half)) + text)
      sql.run(
        "UPDATE parts SET text = text || ?, half = ?, size = ? WHERE message_id = ? AND id = ?",
        piece.text,
        piece.half,
        row.size + text.length,
        messageId,
        id,
      )
      changes.grown(messageId, id, row.size)
    },
    unnamedPart: (messageId, kind) => {
      const last = one(
        sql.all<{ base: string; kind: string; place: number }>(
          "SELECT base, kind, place FROM parts WHERE message_id = ? ORDER BY place DESC LIMIT 1",
          messageId,
        ),
      )
      return last?.kind === kind ? last.base : `${kind}-${(last?.place ?? 0) + 1}`
    },
    putPart: (messageId, id, kind, data) => {
      const text = JSON.stringify(data)
      const known = sql.all(
        "UPDATE parts SET data = ? WHERE message_id = ? AND id = ? RETURNING id",
        text,
        messageId,
        id,
      )
      if (known.length > 0) return void changes.note("part", refOf(messageId, id))
      insertPart({ message_id: messageId, id, base: id, kind, data: text })
    },
    end: (id, status, error, finalText) => {
      if (endRow(id, status, error) && finalText !== undefined) settleText(id, finalText)
    },
    endOf: (promptId, status, error) => {
      const open = sql.all<{ id: string }>(
        "SELECT id FROM messages WHERE prompt_id = ? AND status = 'streaming'",
        promptId,
      )
      for (const { id } of open) endRow(id, status, error)
    },
    remove: (ids) => {
      for (const id of ids) {
        const gone = sql.all<{ id: string }>(
          "DELETE FROM messages WHERE id = ? OR prompt_id = ? RETURNING id",
          id,
          id,
        )
        for (const message of gone) {
          streaming.delete(message.id)
          sql.run("DELETE FROM parts WHERE message_id = ?", message.id)
          changes.note("removed", message.id)
        }
      }
    },
    forget: () => streaming.clear(),
  }
}
