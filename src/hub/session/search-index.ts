/**
 * The full-text index of messages that have ended (FTS5 with trigrams: it finds any part of a text of three characters or
 * more). A host whose SQLite lacks FTS5 has no index; the search then reads the texts themselves.
 */
import type { Sql } from "./ports.ts"
import { hasRow } from "./rows.ts"

export interface SearchIndex {
  /** The message has ended: its text does not change any more. */
  readonly add: (messageId: string) => void
  /** Call before the rows of the message are deleted. */
  readonly remove: (messageId: string) => void
}

/** Without a copy of the text, which `parts` has. The row id is the place of the part. */
const CREATE =
  "CREATE VIRTUAL TABLE part_text USING fts5(text, content = '', contentless_delete = 1, tokenize = 'trigram')"
/** Parts with data are the words of sub-agents. */
const ADD = `INSERT INTO part_text (rowid, text) SELECT p.place, p.text FROM parts p
  JOIN messages m ON m.id = p.message_id WHERE m.status <> 'streaming' AND p.kind = 'text' AND p.data IS NULL`

/** Makes the index, and fills it from the messages of before there was one. */
export const migrateSearchIndex = (sql: Sql): void => {
  sql.run("CREATE INDEX IF NOT EXISTS parts_place ON parts (place)")
  sql.run(
    "CREATE INDEX IF NOT EXISTS messages_streaming ON messages (id) WHERE status = 'streaming'",
  )
  if (hasSearchIndex(sql)) return
  try {
    sql.run(CREATE)
  } catch {
    return
  }
  sql.run(ADD)
}

export const hasSearchIndex = (sql: Sql): boolean =>
  hasRow(sql, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'part_text'")

export const createSearchIndex = (sql: Sql): SearchIndex => {
  let known: boolean | undefined
  const isThere = () => (known ??= hasSearchIndex(sql))
  return {
    add: (messageId) => {
      if (isThere()) sql.run(`${ADD} AND m.id = ?`, messageId)
    },
    remove: (messageId) => {
      if (!isThere()) return
      sql.run(
        "DELETE FROM part_text WHERE rowid IN (SELECT place FROM parts WHERE message_id = ?)",
        messageId,
      )
    },
  }
}
