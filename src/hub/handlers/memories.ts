/** Memories: facts that sessions store for later sessions, found by full-text search. */
import type { Sql } from "../session/ports.ts"
import { type MemoryRow, memoryRow, selectAll, selectOne } from "../shared-store/rows.ts"
import { Refusal, type StoreHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"

const showMemory = ({ id, category, content, session, created_at }: MemoryRow) => ({
  id,
  category,
  content,
  sessionId: session,
  createdAt: created_at,
})

export const memoryHandlers = (
  sql: Sql,
  { now, newId }: HandlerContext,
): Pick<StoreHandlers, "memory-read" | "memory-write" | "memory-delete"> => ({
  "memory-read": ({ category, query, limit = 50 }) => {
    const match = query === undefined ? undefined : fullTextQuery(query)
    const rows =
      match === undefined
        ? selectAll(sql, memoryRow, "SELECT * FROM memories ORDER BY place DESC")
        : selectAll(
            sql,
            memoryRow,
            `SELECT m.* FROM memory_words w JOIN memories m ON m.place = w.rowid
             WHERE memory_words MATCH ? ORDER BY bm25(memory_words), m.place DESC`,
            match,
          )
    const found = rows.filter((row) => category === undefined || row.category === category)
    return { memories: found.slice(0, limit).map(showMemory) }
  },
  "memory-write": ({ content, category }, { session }) => {
    if (content.trim() === "") throw new Refusal("content: must not be empty")
    const row = selectOne(
      sql,
      memoryRow,
      "INSERT INTO memories (id, category, content, session, created_at) VALUES (?, ?, ?, ?, ?) RETURNING *",
      newId(),
      category,
      content,
      session,
      now(),
    )
    if (!row) throw new Error("the memory was not written")
    sql.run(
      "INSERT INTO memory_words (rowid, content, category) VALUES (?, ?, ?)",
      row.place,
      content,
      category,
    )
    return { memory: showMemory(row), success: true }
  },
  "memory-delete": ({ memoryId }) => {
    const deleted = selectOne(
      sql,
      memoryRow,
      "DELETE FROM memories WHERE id = ? RETURNING *",
      memoryId,
    )
    if (!deleted) throw new Refusal(`there is no memory ${memoryId}`)
    sql.run("DELETE FROM memory_words WHERE rowid = ?", deleted.place)
    return { success: true }
  },
})

/** Each word of a query is a search of its own: more of them would stall the hub for seconds. */
const MAX_QUERY_WORDS = 32
const MAX_QUERY_CHARACTERS = 2000

/** Any of the words, by prefix. Quoting keeps the caller's text from being read as FTS5 syntax. */
const fullTextQuery = (query: string): string | undefined => {
  const words = query.slice(0, MAX_QUERY_CHARACTERS).match(/[\p{L}\p{N}]+/gu)
  return words
    ?.slice(0, MAX_QUERY_WORDS)
    .map((word) => `"${word}"*`)
    .join(" OR ")
}
