/** What sessions remember from one to the next, found by its words. */
import { one, type Sql } from "../session/ports.ts"
import { Refusal, type TableHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"

interface MemoryRow {
  place: number
  id: string
  category: string
  content: string
  session: string
  created_at: number
}

const memoryOf = ({ id, category, content, session, created_at }: MemoryRow) => ({
  id,
  category,
  content,
  sessionId: session,
  createdAt: created_at,
})

export const memoryHandlers = (
  sql: Sql,
  { now, newId }: HandlerContext,
): Pick<TableHandlers, "memory-read" | "memory-write" | "memory-delete"> => ({
  "memory-read": ({ category, query, limit = 50 }) => {
    const words = query === undefined ? undefined : searchOf(query)
    const rows =
      words === undefined
        ? sql.all<MemoryRow>("SELECT * FROM memories ORDER BY place DESC")
        : sql.all<MemoryRow>(
            `SELECT m.* FROM memory_words w JOIN memories m ON m.place = w.rowid
             WHERE memory_words MATCH ? ORDER BY bm25(memory_words), m.place DESC`,
            words,
          )
    const fitting = rows.filter((row) => category === undefined || row.category === category)
    return { memories: fitting.slice(0, limit).map(memoryOf) }
  },
  "memory-write": ({ content, category }, { session }) => {
    if (content.trim() === "") throw new Refusal("content: must not be empty")
    const row = one(
      sql.all<MemoryRow>(
        "INSERT INTO memories (id, category, content, session, created_at) VALUES (?, ?, ?, ?, ?) RETURNING *",
        newId(),
        category,
        content,
        session,
        now(),
      ),
    )
    if (!row) throw new Error("the memory was not written")
    sql.run(
      "INSERT INTO memory_words (rowid, content, category) VALUES (?, ?, ?)",
      row.place,
      content,
      category,
    )
    return { memory: memoryOf(row), success: true }
  },
  "memory-delete": ({ memoryId }) => {
    const gone = one(sql.all<MemoryRow>("DELETE FROM memories WHERE id = ? RETURNING *", memoryId))
    if (!gone) throw new Refusal(`there is no memory ${memoryId}`)
    sql.run("DELETE FROM memory_words WHERE rowid = ?", gone.place)
    return { success: true }
  },
})

/** Words as words: whatever else stands in a query is not the search's own language. */
const searchOf = (query: string): string | undefined => {
  const words = query.match(/[\p{L}\p{N}]+/gu)
  return words?.map((word) => `"${word}"*`).join(" OR ")
}
