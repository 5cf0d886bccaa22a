/**
 * The rows of a session's tables, as zod schemas. Every row that the session reads goes through one of them: JSON columns
 * are parsed here and nowhere else.
 */
import { z } from "zod"
import { agentConfig, attachment } from "../../wire/frames/shapes.ts"
import { type Inbound, parseInbound, promptSchema } from "../../wire/frames/index.ts"
import {
  interactionKind,
  interactionStatus,
  messageRole,
  messageStatus,
  usage,
} from "../../wire/clients/conversation.ts"
import { jsonColumn, optionalJsonColumn, readJson } from "../../lib/json.ts"
import type { Sql, SqlValue } from "./ports.ts"

export const readRows = <Schema extends z.ZodType>(
  sql: Sql,
  schema: Schema,
  query: string,
  ...values: readonly SqlValue[]
): z.output<Schema>[] => sql.all(query, ...values).map((row) => schema.parse(row))

/** The first row, for a query that has at most one. */
export const readRow = <Schema extends z.ZodType>(
  sql: Sql,
  schema: Schema,
  query: string,
  ...values: readonly SqlValue[]
): z.output<Schema> | undefined => {
  const [row] = sql.all(query, ...values)
  return row === undefined ? undefined : schema.parse(row)
}

/** True when the query has a row: for `SELECT 1` and for `UPDATE ... RETURNING`. */
export const hasRow = (sql: Sql, query: string, ...values: readonly SqlValue[]): boolean =>
  sql.all(query, ...values).length > 0

export const idRow = z.object({ id: z.string() })
export const foreignTurnRow = z.object({ id: z.string(), channel: z.string() })
export const valueRow = z.object({ value: z.string() })
export const countRow = z.object({ count: z.number() })

export const changeRow = z.object({
  rev: z.number(),
  kind: z.enum([
    "message",
    "part",
    "delta",
    "queue",
    "interaction",
    "state",
    "ask",
    "artifact",
    "usage",
    "removed",
    "part-removed",
    "channel",
  ]),
  ref: z.string(),
  start: z.number().nullable(),
})
export const revRow = z.object({ rev: z.number().nullable() })

export const messageRow = z.object({
  id: z.string(),
  place: z.number(),
  role: messageRole,
  channel: z.string(),
  prompt_id: z.string().nullable(),
  status: messageStatus,
  error: z.string().nullable(),
  author: optionalJsonColumn(z.unknown()),
  created_at: z.number(),
  ended_at: z.number().nullable(),
  /** Of a prompt; from the queue. */
  client_request_id: z.string().nullable(),
})
/** What one message has used, over all answers of the model. */
export const messageUsageRow = usage.extend({ model: z.string() })
export const placeRow = z.object({ place: z.number() })

export const partRow = z.object({
  message_id: z.string(),
  id: z.string(),
  base: z.string(),
  place: z.number(),
  kind: z.string(),
  text: z.string(),
  /** The first half of a surrogate pair whose second half has not arrived: a text column cannot hold it. */
  half: z.number().nullable(),
  size: z.number(),
  data: optionalJsonColumn(z.unknown()),
})
export const partTextRow = partRow.pick({ base: true, text: true, half: true })
/** Read for every batch of deltas: without the text, which may be long. */
export const partSizeRow = z.object({
  id: z.string(),
  half: z.number().nullable(),
  size: z.number(),
})
/** The output of a running tool: `text` is its end, `size` the length of all of it. */
export const outputRow = z.object({ text: z.string(), size: z.number() })
export const lastPartRow = z.object({ base: z.string(), kind: z.string(), place: z.number() })
/** The `ref` of a change to a part. */
export const partRef = z.tuple([z.string(), z.string()])

const queueStatus = z.enum(["queued", "processing", "done", "failed", "canceled"])

export const queueRow = z.object({
  id: z.string(),
  channel: z.string(),
  /** JSON, read by `readPrompt` when it is needed: a prompt may have 400,000 characters. */
  prompt: z.string(),
  status: queueStatus,
  stopping: z.number(),
  error: z.string().nullable(),
})
export type QueueRow = z.output<typeof queueRow>

/** A prompt in the queue as clients see it. */
export const openPromptRow = queueRow.omit({ error: true }).extend({
  client_request_id: z.string().nullable(),
  received_at: z.number(),
  prompt: jsonColumn(
    z.object({
      content: z.string(),
      attachments: z
        .array(z.object({ mime: z.string(), filename: z.string().optional() }))
        .optional(),
    }),
  ),
})

export const knownPromptRow = queueRow.pick({ id: true, prompt: true, channel: true })

/** As a prompt is stored: its files are references to blobs, which are not URLs of the wire. */
const storedPrompt = promptSchema.extend({
  attachments: z.array(attachment.extend({ url: z.string() })).optional(),
})
export const readPrompt = (text: string): Inbound<"prompt"> => readJson(storedPrompt, text)

/** The prompt with its fields in the order of the schema, so that two of them can be compared as text. */
export const normalizePrompt = (prompt: Inbound<"prompt">): Inbound<"prompt"> =>
  storedPrompt.parse(prompt)

export const interactionRow = z.object({
  id: z.string(),
  kind: interactionKind,
  prompt_id: z.string().nullable(),
  channel: z.string(),
  payload: jsonColumn(z.record(z.string(), z.unknown())),
  status: interactionStatus,
  answer: optionalJsonColumn(z.unknown()),
  at: z.number(),
})

/** An answer that was given, by the kind of what was asked. */
export const answeredRow = z.discriminatedUnion("kind", [
  z.object({
    id: z.string(),
    kind: z.literal("question"),
    answer: jsonColumn(z.union([z.string(), z.boolean()])),
  }),
  z.object({
    id: z.string(),
    kind: z.literal("permission"),
    answer: jsonColumn(z.enum(["once", "always", "reject"])),
  }),
])

export const askRow = z.object({
  id: z.string(),
  kind: z.string(),
  status: z.string(),
  result: optionalJsonColumn(z.unknown()),
})

/** A file that object storage does not have yet. */
export const movableRow = z.object({ id: z.string(), mime: z.string() })
export const artifactRow = z.object({
  id: z.string(),
  mime: z.string(),
  bytes: z.number(),
  description: z.string(),
  at: z.number(),
  message_id: z.string().nullable(),
  call_id: z.string().nullable(),
  width: z.number().nullable(),
  height: z.number().nullable(),
})

export const stateRow = z.object({ name: z.string(), value: jsonColumn(z.unknown()) })

/**
 * `greeting`: connected, no frame received. `reconciling`: `hello` received, older frames may still be on the way.
 * `open`: every older frame is known. `uncounted`: a runner that does not number its frames.
 */
export const runnerConnectionRow = z.object({
  connection: z.string().nullable(),
  epoch: z.string().nullable(),
  phase: z.enum(["away", "greeting", "reconciling", "open", "uncounted"]),
  barrier: z.string().nullable(),
  active: jsonColumn(z.array(z.string())),
  ready: z.number().transform((ready) => ready === 1),
})
export const epochRow = z.object({ last_seq: z.number() })

export const deadlineRow = z.object({
  kind: z.enum(["stop", "prompt", "barrier", "ask", "interaction", "access"]),
  ref: z.string(),
})
export const deadlineTimeRow = z.object({ at: z.number().nullable() })

export const fileRow = z.object({ place: z.number(), id: z.string() })
export const channelRow = z.object({ key: z.string() })
export const channelCountsRow = z.object({
  title: z.string().nullable(),
  working: z.number(),
  queued: z.number(),
  waiting: z.number(),
  received_at: z.number().nullable(),
  last_text: z.string().nullable(),
})
export const newestMessageRow = z.object({
  status: messageStatus,
  at: z.number(),
  rev: z.number().nullable(),
})
export const searchRow = z.object({
  id: z.string(),
  place: z.number(),
  role: messageRole,
  channel: z.string(),
  created_at: z.number(),
  text: z.string(),
})
export const pathRow = z.object({ path: z.string() })
/** The channel of an entity, for its summary. */
export const entityChannelRow = z.object({ id: z.string(), channel: z.string() })
export const cancelRow = z.object({ execution: z.string() })
export const orderRow = z.object({ frame: z.string() })
export const resultRow = z.object({ result: z.string() })

/** The session's config as the `meta` table stores it. */
export const readConfig = (text: string | undefined): AgentConfig =>
  readJson(agentConfig, text ?? "{}")
export type AgentConfig = z.output<typeof agentConfig>

/** A workflow order as its row stores it. */
export const readOrder = (text: string): Inbound<"workflow-execute"> => {
  const parsed = parseInbound(text)
  if (!parsed.ok)
    throw new Error(`stored workflow order does not match its schema: ${parsed.problem}`)
  if (parsed.frame.type !== "workflow-execute") throw new Error("stored workflow order: wrong type")
  return parsed.frame
}
