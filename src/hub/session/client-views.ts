/** How each thing of a session looks to a client: the same in a snapshot, in a replay and live. */
import type { ChangeKind, ClientEvent } from "./changes.ts"
import { one, type Sql } from "./ports.ts"

interface MessageRow {
  id: string
  place: number
  role: string
  channel: string
  prompt_id: string | null
  status: string
  error: string | null
  author: string | null
  created_at: number
  ended_at: number | null
}

export interface PartRow {
  message_id: string
  id: string
  base: string
  place: number
  kind: string
  text: string
  /** A surrogate whose other half has not come yet: a column of text cannot hold it. */
  half: number | null
  size: number
  data: string | null
}

export const readEntity = (
  sql: Sql,
  kind: ChangeKind,
  ref: string,
  start = 0,
): ClientEvent | undefined => {
  switch (kind) {
    case "message": {
      const row = one(sql.all<MessageRow>("SELECT * FROM messages WHERE id = ?", ref))
      return row && { type: "message", message: messageOf(row) }
    }
    case "part": {
      const row = findPart(sql, ref)
      return row && { type: "part", messageId: row.message_id, part: partOf(row) }
    }
    case "delta": {
      const row = findPart(sql, ref)
      if (!row) return undefined
      const text = textOf(row).slice(start)
      return { type: "part.delta", messageId: row.message_id, partId: row.id, offset: start, text }
    }
    case "queue":
      return { type: "queue", queue: readQueue(sql) }
    case "interaction": {
      const row = one(sql.all<InteractionRow>("SELECT * FROM interactions WHERE id = ?", ref))
      return row && { type: "interaction", interaction: interactionOf(row) }
    }
    case "state": {
      const row = one(sql.all<{ value: string }>("SELECT value FROM state WHERE name = ?", ref))
      return row && { type: "state", name: ref, value: JSON.parse(row.value) }
    }
    case "ask": {
      const row = one(sql.all<AskRow>("SELECT * FROM asks WHERE id = ?", ref))
      return row && { type: "answer", ...askOf(row) }
    }
    case "artifact": {
      const row = one(sql.all<ArtifactRow>("SELECT * FROM artifacts WHERE id = ?", ref))
      return row && { type: "artifact", artifact: artifactOf(row) }
    }
    case "usage":
      return { type: "usage", usage: readUsage(sql) }
    case "removed":
      return { type: "removed", messageId: ref }
  }
}

const findPart = (sql: Sql, ref: string): PartRow | undefined => {
  const [messageId, id] = JSON.parse(ref) as [string, string]
  return one(sql.all<PartRow>("SELECT * FROM parts WHERE message_id = ? AND id = ?", messageId, id))
}

const messageOf = (row: MessageRow) => ({
  id: row.id,
  role: row.role,
  channel: row.channel,
  status: row.status,
  createdAt: row.created_at,
  ...(row.prompt_id !== null && { promptId: row.prompt_id }),
  ...(row.error !== null && { error: row.error }),
  ...(row.author !== null && { author: JSON.parse(row.author) as unknown }),
  ...(row.ended_at !== null && { endedAt: row.ended_at }),
})

export const textOf = (row: Pick<PartRow, "text" | "half">): string =>
  row.half === null ? row.text : row.text + String.fromCharCode(row.half)

const partOf = (row: PartRow) => ({
  id: row.id,
  kind: row.kind,
  ...(row.kind === "text" || row.kind === "reasoning" ? { text: textOf(row) } : {}),
  ...(row.data !== null && { data: JSON.parse(row.data) as unknown }),
})

interface InteractionRow {
  id: string
  kind: string
  prompt_id: string | null
  channel: string
  payload: string
  status: string
  answer: string | null
  at: number
}

const interactionOf = (row: InteractionRow) => ({
  id: row.id,
  kind: row.kind,
  channel: row.channel,
  status: row.status,
  ...(JSON.parse(row.payload) as object),
  ...(row.prompt_id !== null && { promptId: row.prompt_id }),
  ...(row.answer !== null && { answer: JSON.parse(row.answer) as unknown }),
})

interface AskRow {
  id: string
  kind: string
  status: string
  result: string | null
}

const askOf = (row: AskRow) => ({
  requestId: row.id,
  asked: row.kind,
  status: row.status,
  ...(row.result !== null && { result: JSON.parse(row.result) as unknown }),
})

interface ArtifactRow {
  id: string
  mime: string
  bytes: number
  description: string
  at: number
}

const artifactOf = ({ id, mime, bytes, description, at }: ArtifactRow) => ({
  id,
  mime,
  bytes,
  description,
  at,
})

const readQueue = (sql: Sql) =>
  sql
    .all<{ id: string; channel: string; status: string; prompt: string; stopping: number }>(
      "SELECT id, channel, status, prompt, stopping FROM queue WHERE status IN ('queued', 'processing') ORDER BY status DESC, priority DESC, place",
    )
    .map(({ id, channel, status, prompt, stopping }) => ({
      id,
      channel,
      status: status === "processing" && stopping === 1 ? "stopping" : status,
      content: (JSON.parse(prompt) as { content: string }).content,
    }))

const readUsage = (sql: Sql) =>
  one(
    sql.all<Record<string, number>>(
      `SELECT coalesce(sum(input), 0) AS input, coalesce(sum(output), 0) AS output,
        coalesce(sum(reasoning), 0) AS reasoning, coalesce(sum(cache_read), 0) AS cacheRead,
        coalesce(sum(cache_write), 0) AS cacheWrite, coalesce(sum(cost), 0) AS cost FROM usage`,
    ),
  ) ?? {}

/** The newest messages with their parts, oldest first; `before` is the place of the oldest one that is known. */
export const readMessages = (sql: Sql, limit: number, before = Number.MAX_SAFE_INTEGER) => {
  const rows = sql
    .all<MessageRow>(
      "SELECT * FROM messages WHERE place < ? ORDER BY place DESC LIMIT ?",
      before,
      limit,
    )
    .toReversed()
  return {
    messages: rows.map((row) => ({
      ...messageOf(row),
      parts: sql
        .all<PartRow>("SELECT * FROM parts WHERE message_id = ? ORDER BY place", row.id)
        .map(partOf),
    })),
    ...(rows.length === limit && { before: rows[0]?.place }),
  }
}

export const readSnapshot = (sql: Sql, rev: number, limit = 100) => ({
  type: "snapshot",
  rev,
  ...readMessages(sql, limit),
  queue: readQueue(sql),
  interactions: sql
    .all<InteractionRow>("SELECT * FROM interactions WHERE status = 'open' ORDER BY at")
    .map(interactionOf),
  artifacts: sql.all<ArtifactRow>("SELECT * FROM artifacts ORDER BY at").map(artifactOf),
  usage: readUsage(sql),
  state: Object.fromEntries(
    sql
      .all<{ name: string; value: string }>("SELECT name, value FROM state")
      .map(({ name, value }) => [name, JSON.parse(value) as unknown]),
  ),
})
