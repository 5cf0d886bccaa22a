/**
 * Converts a frame of OpenCode's stream to an AgentEvent. Both event formats are covered: text comes as
 * `message.part.delta`, or as a growing `message.part.updated` in older versions. Pure.
 */
import { z } from "zod"
import {
  errorSchema,
  messageSchema,
  sessionField,
  partSchema,
  permissionSchema,
  questionSchema,
  statusSchema,
  todoSchema,
} from "./event-schemas.ts"
import type { AgentEvent, ParsedEvent } from "./events.ts"

/** One row for each event type that is used: the schema of its properties and its conversion. */
const row = <Schema extends z.ZodType>(
  schema: Schema,
  convert: (properties: z.output<Schema>) => AgentEvent | undefined,
) => ({
  read: (properties: unknown): { event: AgentEvent | undefined } | { problem: string } => {
    const parsed = schema.safeParse(properties)
    if (parsed.success) return { event: convert(parsed.data) }
    const issue = parsed.error.issues[0]
    return { problem: `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "malformed"}` }
  },
})

const used = {
  "server.connected": row(z.unknown().optional(), () => ({ type: "connected" })),
  "server.heartbeat": row(z.unknown().optional(), () => ({ type: "heartbeat" })),
  "message.updated": row(z.object({ info: messageSchema }), ({ info }) => ({
    type: "message",
    agentSessionId: info.agentSessionId,
    message: info,
  })),
  "message.part.updated": row(z.object({ part: partSchema }), ({ part }) => ({
    type: "part",
    agentSessionId: part.agentSessionId,
    part,
  })),
  "message.part.delta": row(
    z.object({
      ...sessionField,
      messageID: z.string(),
      partID: z.string(),
      field: z.string(),
      delta: z.string(),
    }),
    (properties) =>
      properties.field === "text"
        ? {
            type: "delta",
            agentSessionId: properties.sessionID,
            messageId: properties.messageID,
            partId: properties.partID,
            delta: properties.delta,
          }
        : undefined,
  ),
  "session.status": row(z.object({ ...sessionField, status: statusSchema }), (properties) => ({
    type: "status",
    agentSessionId: properties.sessionID,
    status: properties.status,
  })),
  "session.idle": row(z.object(sessionField), (properties) => ({
    type: "idle",
    agentSessionId: properties.sessionID,
  })),
  // An error without a session is OpenCode's own, such as a failed plugin; it ends no turn.
  "session.error": row(
    z.object({ sessionID: z.string().optional(), error: errorSchema.optional() }),
    ({ sessionID, error }) =>
      sessionID === undefined || !error
        ? undefined
        : { type: "error", agentSessionId: sessionID, error },
  ),
  "session.compacted": row(z.object(sessionField), (properties) => ({
    type: "compacted",
    agentSessionId: properties.sessionID,
  })),
  "session.created": row(sessionProperties(), ({ info }) => sessionEvent(info)),
  "session.updated": row(sessionProperties(), ({ info }) => sessionEvent(info)),
  "todo.updated": row(z.object({ ...sessionField, todos: z.array(todoSchema) }), (properties) => ({
    type: "todo",
    agentSessionId: properties.sessionID,
    items: properties.todos,
  })),
  "question.asked": row(questionSchema, (properties) => ({
    type: "question",
    agentSessionId: properties.sessionID,
    requestId: properties.id,
    questions: properties.questions,
    ...(properties.tool && { callId: properties.tool.callID }),
  })),
  "question.replied": row(z.object({ ...sessionField, requestID: z.string() }), (properties) => ({
    type: "question-closed",
    agentSessionId: properties.sessionID,
    requestId: properties.requestID,
  })),
  "question.rejected": row(z.object({ ...sessionField, requestID: z.string() }), (properties) => ({
    type: "question-closed",
    agentSessionId: properties.sessionID,
    requestId: properties.requestID,
  })),
  "permission.asked": row(permissionSchema, (properties) => ({
    type: "permission",
    agentSessionId: properties.sessionID,
    permissionId: properties.id,
    title: properties.title ?? properties.permission ?? "permission",
    patterns: properties.patterns,
    ...(properties.permission !== undefined && { tool: properties.permission }),
    ...(properties.tool && { callId: properties.tool.callID }),
  })),
} as const satisfies Record<string, ReturnType<typeof row>>

/** Types that are known and not used; any other unknown type is logged. */
const ignored = new Set([
  "sync",
  "plugin.added",
  "catalog.updated",
  "integration.updated",
  "reference.updated",
  "session.diff",
  "session.deleted",
  "message.removed",
  "message.part.removed",
  "permission.replied",
  "file.edited",
  "file.watcher.updated",
  "project.updated",
  "command.executed",
  "vcs.branch.updated",
  "lsp.updated",
  "lsp.client.diagnostics",
  "server.instance.disposed",
  "global.disposed",
])

const envelope = z.object({
  id: z.string().optional(),
  type: z.string(),
  properties: z.unknown().optional(),
})
const globalEnvelope = z.object({ payload: envelope })
const syncEnvelope = z.object({
  payload: z.object({
    type: z.literal("sync"),
    syncEvent: z.object({
      id: z.string(),
      type: z.string(),
      seq: z.number(),
      aggregateID: z.string(),
      data: z.unknown(),
    }),
  }),
})

/** Parses the JSON of one frame of `/global/event` (`{payload}`) or of `/event` (without the envelope). */
export const parseAgentEvent = (frame: unknown): ParsedEvent => {
  const sync = syncEnvelope.safeParse(frame).data?.payload.syncEvent
  if (sync) return parseDurable({ ...sync, agentSessionId: sync.aggregateID })
  const global = globalEnvelope.safeParse(frame)
  const bare = global.success ? global.data.payload : envelope.safeParse(frame).data
  if (!bare) return { kind: "malformed", type: "?", problem: "no event type" }
  if (!isUsed(bare.type)) return { kind: "unused", type: bare.type, known: ignored.has(bare.type) }
  const result = used[bare.type].read(bare.properties)
  if ("problem" in result) return { kind: "malformed", type: bare.type, problem: result.problem }
  if (!result.event) return { kind: "unused", type: bare.type, known: true }
  return {
    kind: "event",
    event: result.event,
    ...(bare.id !== undefined && { id: bare.id }),
  }
}

/** Parses a durable event of the stream or of the history; its type ends in a version, as in `message.updated.1`. */
export const parseDurable = (durable: {
  readonly id: string
  readonly type: string
  readonly agentSessionId: string
  readonly seq: number
  readonly data: unknown
}): ParsedEvent => {
  const { id, agentSessionId, seq } = durable
  const type = durable.type.replace(/\.\d+$/, "")
  if (!isUsed(type)) return { kind: "durable", id, agentSessionId, seq, event: undefined }
  const result = used[type].read(durable.data)
  if ("problem" in result) return { kind: "malformed", type, problem: result.problem }
  return { kind: "durable", id, agentSessionId, seq, event: result.event }
}

const isUsed = (type: string): type is keyof typeof used => Object.hasOwn(used, type)

function sessionProperties() {
  return z.object({
    info: z.object({
      id: z.string(),
      parentID: z.string().optional(),
      title: z.string().optional(),
    }),
  })
}

const sessionEvent = (info: {
  id: string
  parentID?: string | undefined
  title?: string | undefined
}) =>
  ({
    type: "session",
    agentSessionId: info.id,
    ...(info.parentID !== undefined && { parentId: info.parentID }),
    ...(info.title !== undefined && { title: info.title }),
  }) as const
