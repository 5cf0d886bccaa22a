/** Search in the text of a session's conversations: any part of the text, without regard to case. */
import type { SearchHit } from "../../wire/clients/conversation.ts"
import type { Sql, SqlValue } from "./ports.ts"
import { readRows, searchRow } from "./rows.ts"
import { excerptOf } from "./search-excerpt.ts"
import { hasSearchIndex } from "./search-index.ts"

/** The index knows groups of three characters. */
const TOO_SHORT = /^.{0,2}$/su

export interface SearchRequest {
  readonly query: string
  readonly channel?: string | undefined
  readonly limit: number
}

export interface SearchResult {
  readonly hits: readonly SearchHit[]
  readonly more: boolean
}

/** Newest first. */
export const searchText = (sql: Sql, { query, channel, limit }: SearchRequest): SearchResult => {
  const { places, values } = placesFor(sql, query)
  const rows = readRows(
    sql,
    searchRow,
    // With min(), SQLite takes the other columns from the row that has it: the first part that matches.
    `SELECT m.id, m.place, m.role, m.channel, m.created_at, p.text, min(p.place) AS first
      FROM parts p JOIN messages m ON m.id = p.message_id
      WHERE p.place IN (${places}) ${channel === undefined ? "" : "AND m.channel = ?"}
      GROUP BY m.id ORDER BY m.place DESC LIMIT ?`,
    ...values,
    ...(channel === undefined ? [] : [channel]),
    limit + 1,
  )
  const hits = rows.slice(0, limit).map(({ id, place, role, channel: key, created_at, text }) => ({
    messageId: id,
    place,
    role,
    channel: key,
    at: created_at,
    // The page shows a person's words as they are.
    ...excerptOf(text, query, role !== "user"),
  }))
  return { hits, more: rows.length > limit }
}

/** Parts with data are the words of sub-agents. */
const IN_TEXTS = String.raw`SELECT s.place FROM messages n JOIN parts s ON s.message_id = n.id
  WHERE s.kind = 'text' AND s.data IS NULL AND s.text LIKE ? ESCAPE '\'`
/** A message that still streams is not in the index. */
const IN_INDEX = `SELECT rowid FROM part_text WHERE part_text MATCH ?
  UNION ${IN_TEXTS} AND n.status = 'streaming'`

/** The query for the places of the parts that match. */
const placesFor = (
  sql: Sql,
  query: string,
): { readonly places: string; readonly values: readonly SqlValue[] } => {
  const pattern = `%${query.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
  if (TOO_SHORT.test(query) || !hasSearchIndex(sql)) return { places: IN_TEXTS, values: [pattern] }
  // Quoted, the whole query is one phrase: no character of it has a meaning in FTS5's language.
  const phrase = `"${query.replaceAll("\0", " ").replaceAll('"', '""')}"`
  return { places: IN_INDEX, values: [phrase, pattern] }
}
