/**
 * What OpenCode says, in one form: each event used has its schema here, for both dialects of its stream (text as
 * `message.part.delta`, or as growing `message.part.updated`), and becomes one AgentEvent. Pure.
 */
import { z } from "zod"

export interface AgentError {
  readonly name: string
  readonly message: string
  readonly statusCode?: number
  readonly isRetryable?: boolean
}

export interface AgentMessage {
  readonly id: string
  readonly sessionId: string
  readonly role: "user" | "assistant"
  readonly parentId?: string
  readonly createdAt: number
  readonly completed: boolean
  readonly error?: AgentError
  readonly finish?: string
  /** A compaction's summary: the model talking to itself, never shown. */
  readonly isSummary: boolean
  readonly model?: string
  readonly usage?: AgentUsage
}

export interface AgentUsage {
  readonly input: number
  readonly output: number
  readonly reasoning: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly cost?: number
}

export type ToolStatus = "pending" | "running" | "completed" | "error"

interface PartBase {
  readonly id: string
  readonly messageId: string
  readonly sessionId: string
}

export interface AgentTextPart extends PartBase {
  readonly kind: "text" | "reasoning"
  readonly text: string
  /** The text is whole: nothing will be added to it. */
  readonly ended: boolean
  /** Written by OpenCode itself, not by the model or the user. */
  readonly synthetic: boolean
}

export interface AgentToolPart extends PartBase {
  readonly kind: "tool"
  readonly callId: string
  readonly tool: string
  readonly status: ToolStatus
  readonly input?: unknown
  readonly output?: string
  readonly error?: string
  /** The agent session that a sub-agent's tool call runs in. */
  readonly childSessionId?: string
}

export interface AgentOtherPart extends PartBase {
  readonly kind: "other"
  readonly type: string
}

export type AgentPart = AgentTextPart | AgentToolPart | AgentOtherPart

export type SessionStatus =
  | { readonly type: "idle" }
  | { readonly type: "busy" }
  | {
      readonly type: "retry"
      readonly attempt: number
      readonly message: string
      readonly next: number
    }

export interface AgentQuestion {
  readonly text: string
  readonly options: readonly string[]
  readonly multiple: boolean
}

export interface TodoItem {
  readonly content: string
  readonly status: string
  readonly priority?: string
}

/** Every event that concerns an agent session carries its id; `live` events are about the stream itself. */
export type AgentEvent =
  | { readonly type: "connected" }
  | { readonly type: "heartbeat" }
  | { readonly type: "message"; readonly sessionId: string; readonly message: AgentMessage }
  | { readonly type: "part"; readonly sessionId: string; readonly part: AgentPart }
  | {
      readonly type: "delta"
      readonly sessionId: string
      readonly messageId: string
      readonly partId: string
      readonly delta: string
    }
  | { readonly type: "status"; readonly sessionId: string; readonly status: SessionStatus }
  | { readonly type: "idle"; readonly sessionId: string }
  | { readonly type: "error"; readonly sessionId: string; readonly error: AgentError }
  | { readonly type: "compacted"; readonly sessionId: string }
  | { readonly type: "todo"; readonly sessionId: string; readonly items: readonly TodoItem[] }
  | {
      readonly type: "session"
      readonly sessionId: string
      readonly parentId?: string
      readonly title?: string
    }
  | {
      readonly type: "question"
      readonly sessionId: string
      readonly requestId: string
      readonly questions: readonly AgentQuestion[]
    }
  | { readonly type: "question-closed"; readonly sessionId: string; readonly requestId: string }
  | {
      readonly type: "permission"
      readonly sessionId: string
      readonly permissionId: string
      readonly title: string
      readonly patterns: readonly string[]
    }

export type ParsedEvent =
  | { readonly kind: "event"; readonly id?: string; readonly event: AgentEvent }
  /** The durable copy of an event, numbered without a gap in its session; the event itself has the same id. */
  | {
      readonly kind: "durable"
      readonly id: string
      readonly sessionId: string
      readonly seq: number
      /** Nothing when the type is of no use here. */
      readonly event: AgentEvent | undefined
    }
  /** A type that nothing here uses; `known` when it is expected noise. */
  | { readonly kind: "unused"; readonly type: string; readonly known: boolean }
  | { readonly kind: "malformed"; readonly type: string; readonly problem: string }

const errorSchema = z
  .object({
    name: z.string().default("UnknownError"),
    data: z
      .object({
        message: z.string().optional(),
        statusCode: z.number().optional(),
        isRetryable: z.boolean().optional(),
      })
      .optional(),
    message: z.string().optional(),
  })
  .transform(({ name, data, message }): AgentError => ({
    name,
    message: data?.message ?? message ?? name,
    ...(data?.statusCode !== undefined && { statusCode: data.statusCode }),
    ...(data?.isRetryable !== undefined && { isRetryable: data.isRetryable }),
  }))

const tokens = z.object({
  input: z.number().default(0),
  output: z.number().default(0),
  reasoning: z.number().default(0),
  cache: z
    .object({ read: z.number().default(0), write: z.number().default(0) })
    .default({ read: 0, write: 0 }),
})

export const messageSchema = z
  .object({
    id: z.string(),
    sessionID: z.string(),
    role: z.enum(["user", "assistant"]),
    parentID: z.string().optional(),
    time: z.object({ created: z.number(), completed: z.number().optional() }),
    error: errorSchema.optional(),
    finish: z.string().optional(),
    summary: z.unknown().optional(),
    providerID: z.string().optional(),
    modelID: z.string().optional(),
    tokens: tokens.optional(),
    cost: z.number().optional(),
  })
  .transform((info): AgentMessage => ({
    id: info.id,
    sessionId: info.sessionID,
    role: info.role,
    createdAt: info.time.created,
    completed: info.time.completed !== undefined,
    isSummary: info.role === "assistant" && info.summary === true,
    ...(info.parentID !== undefined && { parentId: info.parentID }),
    ...(info.error && { error: info.error }),
    ...(info.finish !== undefined && { finish: info.finish }),
    ...(info.providerID !== undefined &&
      info.modelID !== undefined && { model: `${info.providerID}/${info.modelID}` }),
    ...(info.tokens && {
      usage: {
        input: info.tokens.input,
        output: info.tokens.output,
        reasoning: info.tokens.reasoning,
        cacheRead: info.tokens.cache.read,
        cacheWrite: info.tokens.cache.write,
        ...(info.cost !== undefined && { cost: info.cost }),
      },
    }),
  }))

const partBase = { id: z.string(), messageID: z.string(), sessionID: z.string() }

const textPart = z.object({
  ...partBase,
  type: z.enum(["text", "reasoning"]),
  text: z.string(),
  synthetic: z.boolean().optional(),
  time: z.object({ end: z.number().optional() }).optional(),
})

const toolPart = z.object({
  ...partBase,
  type: z.literal("tool"),
  callID: z.string(),
  tool: z.string(),
  state: z.object({
    status: z.enum(["pending", "running", "completed", "error"]),
    input: z.unknown().optional(),
    output: z.string().optional(),
    error: z.string().optional(),
    metadata: z.object({ sessionId: z.string().optional() }).optional(),
  }),
})

// A malformed text or tool part must not pass as "something else": it would vanish without a word.
const otherPart = z.object({
  ...partBase,
  type: z.string().refine((type) => !["text", "reasoning", "tool"].includes(type)),
})

export const partSchema = z.union([textPart, toolPart, otherPart]).transform((part): AgentPart => {
  const base = { id: part.id, messageId: part.messageID, sessionId: part.sessionID }
  if ("text" in part) {
    const ended = part.time?.end !== undefined
    return { ...base, kind: part.type, text: part.text, ended, synthetic: part.synthetic === true }
  }
  if (!("state" in part)) return { ...base, kind: "other", type: part.type }
  const { status, input, output, error, metadata } = part.state
  return {
    ...base,
    kind: "tool",
    callId: part.callID,
    tool: part.tool,
    status,
    ...(input !== undefined && { input }),
    ...(output !== undefined && { output }),
    ...(error !== undefined && { error }),
    ...(metadata?.sessionId !== undefined && { childSessionId: metadata.sessionId }),
  }
})

export const statusSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("idle") }),
  z.object({ type: z.literal("busy") }),
  z.object({
    type: z.literal("retry"),
    attempt: z.number(),
    message: z.string().default(""),
    next: z.number().default(0),
  }),
])

export const questionSchema = z.object({
  id: z.string(),
  sessionID: z.string(),
  questions: z.array(
    z
      .object({
        question: z.string(),
        header: z.string().optional(),
        options: z.array(z.object({ label: z.string() })).default([]),
        multiple: z.boolean().optional(),
      })
      .transform((asked): AgentQuestion => ({
        text: asked.question,
        options: asked.options.map((option) => option.label),
        multiple: asked.multiple === true,
      })),
  ),
})

const ofSession = { sessionID: z.string() }

export const permissionSchema = z.object({
  ...ofSession,
  id: z.string(),
  permission: z.string().optional(),
  title: z.string().optional(),
  patterns: z.array(z.string()).default([]),
})

export const todoSchema = z
  .object({ content: z.string(), status: z.string(), priority: z.string().optional() })
  .transform(({ content, status, priority }): TodoItem => ({
    content,
    status,
    ...(priority !== undefined && { priority }),
  }))

/** A row an event type: what its properties must be, and what it becomes. Absent types are not used. */
const row = <Schema extends z.ZodType>(
  schema: Schema,
  become: (properties: z.output<Schema>) => AgentEvent | undefined,
) => ({
  read: (properties: unknown): { event: AgentEvent | undefined } | { problem: string } => {
    const parsed = schema.safeParse(properties)
    if (parsed.success) return { event: become(parsed.data) }
    const issue = parsed.error.issues[0]
    return { problem: `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "malformed"}` }
  },
})

const used = {
  "server.connected": row(z.unknown().optional(), () => ({ type: "connected" })),
  "server.heartbeat": row(z.unknown().optional(), () => ({ type: "heartbeat" })),
  "message.updated": row(z.object({ info: messageSchema }), ({ info }) => ({
    type: "message",
    sessionId: info.sessionId,
    message: info,
  })),
  "message.part.updated": row(z.object({ part: partSchema }), ({ part }) => ({
    type: "part",
    sessionId: part.sessionId,
    part,
  })),
  "message.part.delta": row(
    z.object({
      ...ofSession,
      messageID: z.string(),
      partID: z.string(),
      field: z.string(),
      delta: z.string(),
    }),
    (properties) =>
      properties.field === "text"
        ? {
            type: "delta",
            sessionId: properties.sessionID,
            messageId: properties.messageID,
            partId: properties.partID,
            delta: properties.delta,
          }
        : undefined,
  ),
  "session.status": row(z.object({ ...ofSession, status: statusSchema }), (properties) => ({
    type: "status",
    sessionId: properties.sessionID,
    status: properties.status,
  })),
  "session.idle": row(z.object(ofSession), (properties) => ({
    type: "idle",
    sessionId: properties.sessionID,
  })),
  // Without a session the error is OpenCode's own (a failed plugin); it ends nobody's turn.
  "session.error": row(
    z.object({ sessionID: z.string().optional(), error: errorSchema.optional() }),
    ({ sessionID, error }) =>
      sessionID === undefined || !error
        ? undefined
        : { type: "error", sessionId: sessionID, error },
  ),
  "session.compacted": row(z.object(ofSession), (properties) => ({
    type: "compacted",
    sessionId: properties.sessionID,
  })),
  "session.created": row(sessionProperties(), ({ info }) => sessionEvent(info)),
  "session.updated": row(sessionProperties(), ({ info }) => sessionEvent(info)),
  "todo.updated": row(z.object({ ...ofSession, todos: z.array(todoSchema) }), (properties) => ({
    type: "todo",
    sessionId: properties.sessionID,
    items: properties.todos,
  })),
  "question.asked": row(questionSchema, (properties) => ({
    type: "question",
    sessionId: properties.sessionID,
    requestId: properties.id,
    questions: properties.questions,
  })),
  "question.replied": row(z.object({ ...ofSession, requestID: z.string() }), (properties) => ({
    type: "question-closed",
    sessionId: properties.sessionID,
    requestId: properties.requestID,
  })),
  "question.rejected": row(z.object({ ...ofSession, requestID: z.string() }), (properties) => ({
    type: "question-closed",
    sessionId: properties.sessionID,
    requestId: properties.requestID,
  })),
  "permission.asked": row(permissionSchema, (properties) => ({
    type: "permission",
    sessionId: properties.sessionID,
    permissionId: properties.id,
    title: properties.title ?? properties.permission ?? "permission",
    patterns: properties.patterns,
  })),
} as const satisfies Record<string, ReturnType<typeof row>>

/** Types that are known and of no use here; any other unknown one is worth a line in the log. */
const noise = new Set([
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

/** One frame of `/global/event` (`{payload}`) or of `/event` (bare), already read as JSON. */
export const parseAgentEvent = (frame: unknown): ParsedEvent => {
  const sync = syncEnvelope.safeParse(frame).data?.payload.syncEvent
  if (sync) return parseDurable({ ...sync, sessionId: sync.aggregateID })
  const global = globalEnvelope.safeParse(frame)
  const bare = global.success ? global.data.payload : envelope.safeParse(frame).data
  if (!bare) return { kind: "malformed", type: "?", problem: "no event type" }
  if (!isUsed(bare.type)) return { kind: "unused", type: bare.type, known: noise.has(bare.type) }
  const result = used[bare.type].read(bare.properties)
  if ("problem" in result) return { kind: "malformed", type: bare.type, problem: result.problem }
  if (!result.event) return { kind: "unused", type: bare.type, known: true }
  return {
    kind: "event",
    event: result.event,
    ...(bare.id !== undefined && { id: bare.id }),
  }
}

/** A durable event of the stream or of the history; its type ends in a version, as in `message.updated.1`. */
export const parseDurable = (durable: {
  readonly id: string
  readonly type: string
  readonly sessionId: string
  readonly seq: number
  readonly data: unknown
}): ParsedEvent => {
  const { id, sessionId, seq } = durable
  const type = durable.type.replace(/\.\d+$/, "")
  if (!isUsed(type)) return { kind: "durable", id, sessionId, seq, event: undefined }
  const result = used[type].read(durable.data)
  if ("problem" in result) return { kind: "malformed", type, problem: result.problem }
  return { kind: "durable", id, sessionId, seq, event: result.event }
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
    sessionId: info.id,
    ...(info.parentID !== undefined && { parentId: info.parentID }),
    ...(info.title !== undefined && { title: info.title }),
  }) as const
