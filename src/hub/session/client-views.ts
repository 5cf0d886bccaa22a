/** The entities of a session as clients read them: the same in a snapshot, in a replay and live. */
import type { z } from "zod"
import {
  type Interaction,
  type Message,
  type MessagePage,
  type MessagePart,
  type QueuedPrompt,
  type SessionEvent,
  type Snapshot,
  type Usage,
  usage,
} from "../../wire/clients/conversation.ts"
import { readJson } from "../../lib/json.ts"
import { artifactOf } from "./artifacts.ts"
import { readChannel, readChannels } from "./channel-summaries.ts"
import type { ChangeKind } from "./changes.ts"
import type { Sql } from "./ports.ts"
import {
  artifactRow,
  askRow,
  interactionRow,
  messageRow,
  messageUsageRow,
  openPromptRow,
  partRef,
  partRow,
  placeRow,
  readRow,
  readRows,
  stateRow,
} from "./rows.ts"

/** The newest state of an entity, or `undefined` when it is deleted. `start` is where a delta begins. */
export const readEntity = (
  sql: Sql,
  kind: ChangeKind,
  ref: string,
  start = 0,
): SessionEvent | undefined => {
  switch (kind) {
    case "message": {
      const row = readRow(sql, messageRow, `${MESSAGES} WHERE m.id = ?`, ref)
      return row && { type: "message", message: messageOf(sql, row) }
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
      const row = readRow(sql, interactionRow, "SELECT * FROM interactions WHERE id = ?", ref)
      return row && { type: "interaction", interaction: interactionOf(row) }
    }
    case "state": {
      const row = readRow(sql, stateRow, "SELECT name, value FROM state WHERE name = ?", ref)
      return { type: "state", name: ref, value: row?.value ?? null }
    }
    case "ask": {
      const row = readRow(sql, askRow, "SELECT * FROM asks WHERE id = ?", ref)
      return row && { type: "answer", ...askOf(row) }
    }
    case "artifact": {
      const artifact = readRow(sql, artifactRow, "SELECT * FROM artifacts WHERE id = ?", ref)
      return artifact && { type: "artifact", artifact: artifactOf(artifact) }
    }
    case "channel":
      return { type: "channel", channel: readChannel(sql, ref) }
    case "usage":
      return { type: "usage", usage: readUsage(sql) }
    case "removed":
      return { type: "removed", messageId: ref }
    case "part-removed": {
      const [messageId, partId] = readJson(partRef, ref)
      return { type: "part.removed", messageId, partId }
    }
  }
}

const findPart = (sql: Sql, ref: string) => {
  const [messageId, id] = readJson(partRef, ref)
  return readRow(sql, partRow, "SELECT * FROM parts WHERE message_id = ? AND id = ?", messageId, id)
}

/** The id of a prompt is the id of its message. */
const MESSAGES =
  "SELECT m.*, (SELECT client_request_id FROM queue WHERE id = m.id) AS client_request_id FROM messages m"

const messageOf = (sql: Sql, row: z.output<typeof messageRow>): Message => ({
  id: row.id,
  place: row.place,
  role: row.role,
  channel: row.channel,
  status: row.status,
  createdAt: row.created_at,
  ...(row.prompt_id !== null && { promptId: row.prompt_id }),
  ...(row.error !== null && { error: row.error }),
  ...(row.author !== undefined && { author: row.author }),
  ...(row.ended_at !== null && { endedAt: row.ended_at }),
  ...(row.client_request_id !== null && { clientRequestId: row.client_request_id }),
  ...(row.role === "assistant" && usageOf(sql, row.id)),
})

const usageOf = (sql: Sql, messageId: string): Pick<Message, "model" | "usage"> => {
  const row = readRow(
    sql,
    messageUsageRow,
    // With max(), SQLite takes the other columns from the row that has it: the model that was used last.
    `SELECT model, max(id) AS newest, ${USAGE} FROM usage WHERE message_id = ? GROUP BY message_id`,
    messageId,
  )
  if (!row) return {}
  const { model, ...used } = row
  return { model, usage: used }
}

export const textOf = ({ text, half }: { text: string; half: number | null }): string =>
  half === null ? text : text + String.fromCharCode(half)

const partOf = (row: z.output<typeof partRow>): MessagePart => ({
  id: row.id,
  place: row.place,
  kind: row.kind,
  ...(row.kind === "text" || row.kind === "reasoning" || row.text !== ""
    ? { text: textOf(row) }
    : {}),
  ...(row.data !== undefined && { data: withCut(row) }),
})

/** Of a running tool: how much of its output was cut from the start. */
const withCut = ({ kind, text, size, data }: z.output<typeof partRow>): unknown =>
  kind === "tool" && size > text.length && typeof data === "object"
    ? { ...data, cut: size - text.length }
    : data

const interactionOf = (row: z.output<typeof interactionRow>): Interaction => ({
  id: row.id,
  kind: row.kind,
  channel: row.channel,
  status: row.status,
  at: row.at,
  ...row.payload,
  ...(row.prompt_id !== null && { promptId: row.prompt_id }),
  ...(row.answer !== undefined && { answer: row.answer }),
})

const askOf = (row: z.output<typeof askRow>) => ({
  requestId: row.id,
  asked: row.kind,
  status: row.status,
  ...(row.result !== undefined && { result: row.result }),
})

const readQueue = (sql: Sql): readonly QueuedPrompt[] =>
  readRows(
    sql,
    openPromptRow,
    "SELECT id, channel, status, prompt, stopping, client_request_id, received_at FROM queue WHERE status IN ('queued', 'processing') ORDER BY status DESC, priority DESC, place",
  ).map(({ id, channel, status, prompt, stopping, client_request_id, received_at }) => ({
    id,
    channel,
    status: status === "queued" ? status : stopping === 1 ? "stopping" : "processing",
    content: prompt.content,
    createdAt: received_at,
    ...(client_request_id !== null && { clientRequestId: client_request_id }),
    ...(prompt.attachments && { files: prompt.attachments.map(fileOf) }),
  }))

const fileOf = ({ mime, filename }: { mime: string; filename?: string | undefined }) => ({
  mime,
  ...(filename !== undefined && { filename }),
})

const NO_USAGE: Usage = { input: 0, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0, cost: 0 }

const USAGE = `coalesce(sum(input), 0) AS input, coalesce(sum(output), 0) AS output,
  coalesce(sum(reasoning), 0) AS reasoning, coalesce(sum(cache_read), 0) AS cacheRead,
  coalesce(sum(cache_write), 0) AS cacheWrite, coalesce(sum(cost), 0) AS cost`

export const readUsage = (sql: Sql): Usage =>
  readRow(sql, usage, `SELECT ${USAGE} FROM usage`) ?? NO_USAGE

export interface PageRequest {
  readonly limit: number
  /** Only messages of this channel. */
  readonly channel?: string | undefined
  /** Messages before this place, the newest of them. */
  readonly before?: number | undefined
  /** Messages after this place, the oldest of them. */
  readonly after?: number | undefined
}

/** A page of messages with their parts, oldest first; without a place, the newest ones. */
export const readMessages = (sql: Sql, request: PageRequest): MessagePage => {
  const { limit, channel, before, after } = request
  const rows = readRows(
    sql,
    messageRow,
    `${MESSAGES} WHERE m.place ${after === undefined ? "<" : ">"} ? ${channel === undefined ? "" : "AND m.channel = ?"}
      ORDER BY m.place ${after === undefined ? "DESC" : "ASC"} LIMIT ?`,
    after ?? before ?? Number.MAX_SAFE_INTEGER,
    ...(channel === undefined ? [] : [channel]),
    // One more, to know whether there are others.
    limit + 1,
  )
  const hasMore = rows.length > limit
  const page = rows.slice(0, limit)
  if (after === undefined) page.reverse()
  const messages = page.map((row) => ({
    ...messageOf(sql, row),
    parts: readRows(
      sql,
      partRow,
      "SELECT * FROM parts WHERE message_id = ? ORDER BY place",
      row.id,
    ).map(partOf),
  }))
  const [oldest, newest] = [page[0], page.at(-1)]
  if (after !== undefined) return { messages, ...(hasMore && newest && { after: newest.place }) }
  return { messages, ...(hasMore && oldest && { before: oldest.place }) }
}

/** The page around a message, half of it before; `undefined` when the message does not exist. */
export const readAround = (
  sql: Sql,
  id: string,
  { limit, channel }: Pick<PageRequest, "limit" | "channel">,
): MessagePage | undefined => {
  const row = readRow(sql, placeRow, "SELECT place FROM messages WHERE id = ?", id)
  if (!row) return undefined
  const half = Math.ceil(limit / 2)
  const older = readMessages(sql, { limit: half, channel, before: row.place + 1 })
  const newer = readMessages(sql, { limit: Math.max(1, limit - half), channel, after: row.place })
  return {
    messages: [...older.messages, ...newer.messages],
    ...(older.before !== undefined && { before: older.before }),
    ...(newer.after !== undefined && { after: newer.after }),
  }
}

const SNAPSHOT_MESSAGES = 100

export const readSnapshot = (sql: Sql, rev: number, channel?: string): Snapshot => ({
  type: "snapshot",
  rev,
  ...(channel !== undefined && { channel }),
  ...readMessages(sql, { limit: SNAPSHOT_MESSAGES, channel }),
  channels: readChannels(sql),
  queue: readQueue(sql),
  interactions: readRows(
    sql,
    interactionRow,
    "SELECT * FROM interactions WHERE status = 'open' ORDER BY at",
  ).map(interactionOf),
  artifacts: readRows(sql, artifactRow, "SELECT * FROM artifacts ORDER BY at").map(artifactOf),
  usage: readUsage(sql),
  state: Object.fromEntries(
    readRows(sql, stateRow, "SELECT name, value FROM state").map(({ name, value }) => [
      name,
      value,
    ]),
  ),
})
