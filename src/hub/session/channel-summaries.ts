/** The conversations of a session, one row per channel. Computed from messages, queue and questions. */
import type { ChannelSummary } from "../../wire/clients/conversation.ts"
import { withoutMarks } from "./markdown-words.ts"
import type { Sql } from "./ports.ts"
import { channelCountsRow, channelRow, newestMessageRow, readRow, readRows } from "./rows.ts"

/** Every channel that has a message, a prompt or an agent session. */
export const readChannelKeys = (sql: Sql): readonly string[] =>
  readRows(
    sql,
    channelRow,
    "SELECT key FROM channels UNION SELECT channel FROM queue UNION SELECT channel FROM messages",
  ).map(({ key }) => key)

const TEXT_CHARACTERS = 120

export const readChannel = (sql: Sql, key: string): ChannelSummary => {
  const counts = readRow(
    sql,
    channelCountsRow,
    `SELECT (SELECT title FROM channel_titles WHERE key = ?1) AS title,
      (SELECT count(*) FROM queue WHERE channel = ?1 AND status = 'processing') AS working,
      (SELECT count(*) FROM queue WHERE channel = ?1 AND status = 'queued') AS queued,
      (SELECT count(*) FROM interactions WHERE channel = ?1 AND status = 'open') AS waiting,
      (SELECT max(received_at) FROM queue WHERE channel = ?1 AND status IN ('queued', 'processing')) AS received_at,
      (SELECT substr(p.text, 1, 400) FROM messages m JOIN parts p ON p.message_id = m.id
        WHERE m.channel = ?1 AND m.status <> 'streaming' AND p.kind = 'text' AND p.text <> '' AND p.data IS NULL
        ORDER BY m.place DESC, p.place DESC LIMIT 1) AS last_text`,
    key,
  )
  const newest = readRow(
    sql,
    newestMessageRow,
    `SELECT status, coalesce(ended_at, created_at) AS at,
      (SELECT rev FROM changes WHERE kind = 'message' AND ref = messages.id) AS rev
      FROM messages WHERE channel = ? ORDER BY place DESC LIMIT 1`,
    key,
  )
  const { working = 0, queued = 0, waiting = 0 } = counts ?? {}
  const lastText = shorten(withoutMarks(counts?.last_text ?? ""))
  return {
    key,
    status:
      waiting > 0
        ? "waiting"
        : working > 0
          ? "working"
          : newest?.status === "error"
            ? "failed"
            : "idle",
    working,
    queued,
    waiting,
    updatedAt: Math.max(newest?.at ?? 0, counts?.received_at ?? 0),
    rev: newest?.rev ?? 0,
    ...(typeof counts?.title === "string" && { title: counts.title }),
    ...(lastText !== "" && { lastText }),
  }
}

export const readChannels = (sql: Sql): readonly ChannelSummary[] =>
  readChannelKeys(sql).map((key) => readChannel(sql, key))

const shorten = (line: string): string =>
  line.length <= TEXT_CHARACTERS ? line : `${line.slice(0, TEXT_CHARACTERS - 1).toWellFormed()}…`
