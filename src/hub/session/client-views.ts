/** The entities of a session as clients read them: the same in a snapshot, in a replay and live. */
import type { z } from "zod"
import type {
  Interaction,
  Message,
  MessagePage,
  MessagePart,
  QueuedPrompt,
  SessionEvent,
  Snapshot,
  Usage,
} from "../../wire/clients/conversation.ts"
import { readJson } from "../../lib/json.ts"
import type { ChangeKind } from "./changes.ts"
import type { Sql } from "./ports.ts"
import {
  artifactRow,
  askRow,
  interactionRow,
  messageRow,
  openPromptRow,
  partRef,
  partRow,
  readRow,
  readRows,
  stateRow,
  usageRow,
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
      const row = readRow(sql, messageRow, "SELECT * FROM messages WHERE id = ?", ref)
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
      return artifact && { type: "artifact", artifact }
    }
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

const messageOf = (row: z.output<typeof messageRow>): Message => ({
  id: row.id,
  role: row.role,
  channel: row.channel,
  status: row.status,
  createdAt: row.created_at,
  ...(row.prompt_id !== null && { promptId: row.prompt_id }),
  ...(row.error !== null && { error: row.error }),
  ...(row.author !== undefined && { author: row.author }),
  ...(row.ended_at !== null && { endedAt: row.ended_at }),
})

export const textOf = ({ text, half }: { text: string; half: number | null }): string =>
  half === null ? text : text + String.fromCharCode(half)

const partOf = (row: z.output<typeof partRow>): MessagePart => ({
  id: row.id,
  kind: row.kind,
  ...(row.kind === "text" || row.kind === "reasoning" ? { text: textOf(row) } : {}),
  ...(row.data !== undefined && { data: row.data }),
})

const interactionOf = (row: z.output<typeof interactionRow>): Interaction => ({
  id: row.id,
  kind: row.kind,
  channel: row.channel,
  status: row.status,
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
    "SELECT id, channel, status, prompt, stopping FROM queue WHERE status IN ('queued', 'processing') ORDER BY status DESC, priority DESC, place",
  ).map(({ id, channel, status, prompt, stopping }) => ({
    id,
    channel,
    status: status === "queued" ? status : stopping === 1 ? "stopping" : "processing",
    content: prompt.content,
  }))

const NO_USAGE: Usage = { input: 0, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0, cost: 0 }

export const readUsage = (sql: Sql): Usage =>
  readRow(
    sql,
    usageRow,
    `SELECT coalesce(sum(input), 0) AS input, coalesce(sum(output), 0) AS output,
      coalesce(sum(reasoning), 0) AS reasoning, coalesce(sum(cache_read), 0) AS cacheRead,
      coalesce(sum(cache_write), 0) AS cacheWrite, coalesce(sum(cost), 0) AS cost FROM usage`,
  ) ?? NO_USAGE

/** The newest messages before the place `before`, with their parts, oldest first. */
export const readMessages = (
  sql: Sql,
  limit: number,
  before = Number.MAX_SAFE_INTEGER,
): MessagePage => {
  const rows = readRows(
    sql,
    messageRow,
    "SELECT * FROM messages WHERE place < ? ORDER BY place DESC LIMIT ?",
    before,
    limit,
  ).toReversed()
  const [oldest] = rows
  return {
    messages: rows.map((row) => ({
      ...messageOf(row),
      parts: readRows(
        sql,
        partRow,
        "SELECT * FROM parts WHERE message_id = ? ORDER BY place",
        row.id,
      ).map(partOf),
    })),
    ...(oldest && rows.length === limit && { before: oldest.place }),
  }
}

export const readSnapshot = (sql: Sql, rev: number, limit = 100): Snapshot => ({
  type: "snapshot",
  rev,
  ...readMessages(sql, limit),
  queue: readQueue(sql),
  interactions: readRows(
    sql,
    interactionRow,
    "SELECT * FROM interactions WHERE status = 'open' ORDER BY at",
  ).map(interactionOf),
  artifacts: readRows(sql, artifactRow, "SELECT * FROM artifacts ORDER BY at"),
  usage: readUsage(sql),
  state: Object.fromEntries(
    readRows(sql, stateRow, "SELECT name, value FROM state").map(({ name, value }) => [
      name,
      value,
    ]),
  ),
})
