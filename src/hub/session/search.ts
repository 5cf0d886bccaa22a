/** Search in the text of a session's conversations: a part of the text, without regard to the case of ASCII letters. */
import type { SearchHit } from "../../wire/clients/conversation.ts"
import type { Sql } from "./ports.ts"
import { readRows, searchRow } from "./rows.ts"

const BEFORE_CHARACTERS = 60
const EXCERPT_CHARACTERS = 240

export interface SearchRequest {
  readonly query: string
  readonly channel?: string | undefined
  readonly limit: number
}

/** Newest first. */
export const searchText = (
  sql: Sql,
  { query, channel, limit }: SearchRequest,
): { readonly hits: readonly SearchHit[]; readonly more: boolean } => {
  const pattern = `%${query.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
  const rows = readRows(
    sql,
    searchRow,
    `SELECT m.id, m.place, m.role, m.channel, m.created_at, p.text FROM messages m JOIN parts p ON p.message_id = m.id
      WHERE p.kind = 'text' AND p.text LIKE ? ESCAPE '\\' ${channel === undefined ? "" : "AND m.channel = ?"}
      GROUP BY m.id ORDER BY m.place DESC LIMIT ?`,
    pattern,
    ...(channel === undefined ? [] : [channel]),
    limit + 1,
  )
  const hits = rows.slice(0, limit).map(({ id, place, role, channel: key, created_at, text }) => ({
    messageId: id,
    place,
    role,
    channel: key,
    at: created_at,
    ...excerpt(text, query),
  }))
  return { hits, more: rows.length > limit }
}

/** The text around the first match, with the position of every match in it. */
const excerpt = (text: string, query: string): Pick<SearchHit, "text" | "marks"> => {
  const match = new RegExp(query.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`), "gi")
  const first = text.search(match)
  const start = Math.max(0, first - BEFORE_CHARACTERS)
  const shown = text.slice(start, start + EXCERPT_CHARACTERS).toWellFormed()
  const marks = [...shown.matchAll(match)].map(
    ({ index, 0: { length } }) => [index, index + length] as const,
  )
  return { text: shown, marks }
}
