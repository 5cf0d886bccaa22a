/** Schemas of OpenCode's messages, parts and requests, for both event formats, and their conversion. Pure. */
import { z } from "zod"
import type {
  AgentError,
  AgentMessage,
  AgentPart,
  AgentQuestion,
  TodoItem,
  ToolDetails,
} from "./events.ts"

/** OpenCode adds the stack of its own source to some errors. */
const STACK = /\n {4}at [\s\S]*$/

export const errorSchema = z
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
    message: (data?.message ?? message ?? name).replace(STACK, ""),
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
    agentSessionId: info.sessionID,
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

const loose = <Schema extends z.ZodType>(schema: Schema) => schema.optional().catch(undefined)

/** Metadata differs from tool to tool: a field of another type than expected counts as absent. */
const toolMetadata = z.object({
  sessionId: loose(z.string()),
  output: loose(z.string()),
  exit: loose(z.int()),
  diff: loose(z.string()),
  filediff: loose(z.object({ file: z.string(), additions: z.number(), deletions: z.number() })),
  files: loose(
    z.array(
      z.object({
        filePath: loose(z.string()),
        relativePath: loose(z.string()),
        additions: z.number(),
        deletions: z.number(),
      }),
    ),
  ),
})

/** A longer diff is left out: half a diff cannot be shown. */
const MAX_DIFF = 65_536

const detailsOf = ({
  time,
  metadata,
}: z.output<typeof toolPart>["state"]): ToolDetails | undefined => {
  const changed = metadata?.filediff
    ? [{ path: metadata.filediff.file, ...countsOf(metadata.filediff) }]
    : metadata?.files?.map((file) => ({
        path: file.relativePath ?? file.filePath ?? "",
        ...countsOf(file),
      }))
  const diff = metadata?.diff
  const details: ToolDetails = {
    ...(time?.start !== undefined && { startedAt: time.start }),
    ...(time?.end !== undefined && { endedAt: time.end }),
    ...(metadata?.exit !== undefined && { exit: metadata.exit }),
    ...(diff !== undefined && diff !== "" && diff.length <= MAX_DIFF && { diff }),
    ...(changed && { files: changed }),
  }
  return Object.keys(details).length === 0 ? undefined : details
}

const countsOf = ({ additions, deletions }: { additions: number; deletions: number }) => ({
  added: additions,
  removed: deletions,
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
    time: z
      .object({ start: z.number().optional(), end: z.number().optional() })
      .optional()
      .catch(undefined),
    metadata: toolMetadata.optional().catch(undefined),
  }),
})

// A malformed text or tool part must not match here: it would be dropped without an error.
const otherPart = z.object({
  ...partBase,
  type: z.string().refine((type) => !["text", "reasoning", "tool"].includes(type)),
})

export const partSchema = z.union([textPart, toolPart, otherPart]).transform((part): AgentPart => {
  const base = { id: part.id, messageId: part.messageID, agentSessionId: part.sessionID }
  if ("text" in part) {
    const ended = part.time?.end !== undefined
    return { ...base, kind: part.type, text: part.text, ended, synthetic: part.synthetic === true }
  }
  if (!("state" in part)) return { ...base, kind: "other", type: part.type }
  const { status, input, output, error, metadata } = part.state
  const details = detailsOf(part.state)
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
    ...(status === "running" && metadata?.output !== undefined && { liveOutput: metadata.output }),
    ...(details && { details }),
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
  tool: loose(z.object({ callID: z.string() })),
  questions: z.array(
    z
      .object({
        question: z.string(),
        header: z.string().optional(),
        options: z
          .array(z.object({ label: z.string(), description: loose(z.string()) }))
          .default([]),
        multiple: z.boolean().optional(),
      })
      .transform((asked): AgentQuestion => ({
        text: asked.question,
        options: asked.options.map((option) => option.label),
        choices: asked.options.map(({ label, description }) => ({
          label,
          ...(description !== undefined && description !== "" && { description }),
        })),
        multiple: asked.multiple === true,
      })),
  ),
})

export const sessionField = { sessionID: z.string() }

export const permissionSchema = z.object({
  ...sessionField,
  id: z.string(),
  permission: z.string().optional(),
  title: z.string().optional(),
  patterns: z.array(z.string()).default([]),
  tool: loose(z.object({ callID: z.string() })),
})

export const todoSchema = z
  .object({ content: z.string(), status: z.string(), priority: z.string().optional() })
  .transform(({ content, status, priority }): TodoItem => ({
    content,
    status,
    ...(priority !== undefined && { priority }),
  }))
