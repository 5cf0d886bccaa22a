/** What the runner tells of a turn while the agent works on it. */
import { z } from "zod"
import { streamed } from "./row.ts"
import { origin, todoItem } from "./shapes.ts"

const turn = { ...origin, turnId: z.string() }

const tokens = z.number().nonnegative()

export const turnRows = [
  streamed("message.create", "A turn begins to answer.", turn),
  streamed("message.part.text-delta", "More of the answer's text.", {
    ...turn,
    partId: z.string().optional(),
    delta: z.string(),
  }),
  streamed("message.part.reasoning-delta", "More of the model's reasoning.", {
    ...turn,
    partId: z.string(),
    delta: z.string(),
  }),
  streamed("message.part.tool-update", "A tool call, each time it gets further.", {
    ...turn,
    callId: z.string(),
    toolName: z.string(),
    status: z.enum(["pending", "running", "completed", "error"]),
    args: z.unknown().optional(),
    result: z.unknown().optional(),
    error: z.string().optional(),
    childSessionId: z.string().optional(),
  }),
  streamed("message.finalize", "A turn's one end.", {
    ...turn,
    reason: z.enum(["end_turn", "error", "canceled"]),
    finalText: z.string().optional(),
    error: z.string().optional(),
  }),
  streamed("todo", "The agent's whole list of things to do.", {
    ...turn,
    items: z.array(todoItem),
  }),
  streamed("usage", "What one message of the model cost.", {
    ...turn,
    model: z.string(),
    input: tokens,
    output: tokens,
    reasoning: tokens,
    cacheRead: tokens,
    cacheWrite: tokens,
    cost: z.number().optional(),
  }),
  streamed("retry", "The agent waits for its provider and then tries again.", {
    ...turn,
    attempt: z.int(),
    next: z.number(),
    message: z.string(),
    droppedParts: z.array(z.string()).optional(),
  }),
  streamed("compacted", "The agent's context was compacted.", turn),
  streamed("permission", "The agent asks whether it may; sent only when asking is relayed.", {
    ...turn,
    permissionId: z.string(),
    title: z.string(),
    patterns: z.array(z.string()),
  }),
  streamed("question", "The agent asks the user.", {
    ...origin,
    questionId: z.string(),
    text: z.string(),
    options: z.array(z.string()).optional(),
    multiple: z.boolean().optional(),
  }),
  streamed("agentStatus", "What the agent is doing now.", {
    ...origin,
    status: z.enum(["idle", "thinking", "tool_calling", "streaming", "error"]),
    detail: z.string().optional(),
  }),
  streamed("model-switched", "A prompt goes on with another model.", {
    ...origin,
    messageId: z.string(),
    fromModel: z.string(),
    toModel: z.string(),
    reason: z.string(),
  }),
  streamed("error", "A prompt failed.", { ...origin, messageId: z.string(), error: z.string() }),
  streamed("complete", "The prompt is dealt with; the next one may come.", origin),
  streamed("aborted", "Answers `abort`.", origin),
] as const
