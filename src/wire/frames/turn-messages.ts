/** Frames about a turn while the agent works on it. */
import { z } from "zod"
import { streamed } from "./row.ts"
import { origin, todoItem } from "./shapes.ts"

const turn = { ...origin, turnId: z.string() }

const tokens = z.number().nonnegative()

export const turnRows = [
  streamed("message.create", "The agent starts a message in this turn.", turn),
  streamed("message.part.text-delta", "Text delta of the message.", {
    ...turn,
    partId: z.string().optional(),
    delta: z.string(),
    childSessionId: z.string().optional(),
  }),
  streamed("message.part.reasoning-delta", "Reasoning delta of the message.", {
    ...turn,
    partId: z.string(),
    delta: z.string(),
    childSessionId: z.string().optional(),
  }),
  streamed("message.part.tool-update", "A tool call, at each change of its status.", {
    ...turn,
    callId: z.string(),
    toolName: z.string(),
    status: z.enum(["pending", "running", "completed", "error"]),
    args: z.unknown().optional(),
    result: z.unknown().optional(),
    error: z.string().optional(),
    childSessionId: z.string().optional(),
    startedAt: z.number().optional(),
    endedAt: z.number().optional(),
    exit: z.int().optional(),
    diff: z.string().optional(),
    files: z
      .array(z.object({ path: z.string(), added: z.number(), removed: z.number() }))
      .optional(),
    child: z.string().optional(),
    agent: z.string().optional(),
  }),
  streamed(
    "message.part.tool-output",
    "New output of a running tool; `offset` is its position in the whole output, in UTF-16 code units.",
    {
      ...turn,
      callId: z.string(),
      childSessionId: z.string().optional(),
      offset: z.int().nonnegative(),
      delta: z.string(),
    },
  ),
  streamed("message.finalize", "End of the turn; sent exactly once.", {
    ...turn,
    reason: z.enum(["end_turn", "error", "canceled"]),
    finalText: z.string().optional(),
    error: z.string().optional(),
  }),
  streamed("todo", "The complete todo list of the agent.", {
    ...turn,
    items: z.array(todoItem),
  }),
  streamed("usage", "Tokens and cost of one message of the model.", {
    ...turn,
    model: z.string(),
    input: tokens,
    output: tokens,
    reasoning: tokens,
    cacheRead: tokens,
    cacheWrite: tokens,
    cost: z.number().optional(),
    childSessionId: z.string().optional(),
  }),
  streamed("retry", "The agent waits after a provider error and then retries.", {
    ...turn,
    attempt: z.int(),
    next: z.number(),
    message: z.string(),
    droppedParts: z.array(z.string()).optional(),
  }),
  streamed("compacted", "The agent's context was compacted.", turn),
  streamed(
    "permission",
    "The agent asks for a permission, when permissions are relayed or an action needs an approval; after `waitMs` the runner does not wait for the reply any more.",
    {
      ...origin,
      turnId: z.string().optional(),
      permissionId: z.string(),
      title: z.string(),
      patterns: z.array(z.string()),
      tool: z.string().optional(),
      callId: z.string().optional(),
      childSessionId: z.string().optional(),
      waitMs: z.int().positive().optional(),
    },
  ),
  streamed("question", "The agent asks the user a question.", {
    ...origin,
    questionId: z.string(),
    text: z.string(),
    options: z.array(z.string()).optional(),
    choices: z
      .array(z.object({ label: z.string(), description: z.string().optional() }))
      .optional(),
    multiple: z.boolean().optional(),
    turnId: z.string().optional(),
    callId: z.string().optional(),
    childSessionId: z.string().optional(),
  }),
  streamed(
    "agentStatus",
    "Current activity of the agent; `ready` says whether prompts can run; it does not depend on what the channels work on.",
    {
      ...origin,
      status: z.enum(["idle", "thinking", "tool_calling", "streaming", "error"]),
      detail: z.string().optional(),
      ready: z.boolean().optional(),
    },
  ),
  streamed("model-switched", "A prompt continues with another model.", {
    ...origin,
    messageId: z.string(),
    fromModel: z.string(),
    toModel: z.string(),
    reason: z.string(),
  }),
  streamed("error", "A prompt failed.", { ...origin, messageId: z.string(), error: z.string() }),
  streamed("complete", "The prompt is finished; the next one may be sent.", origin),
  streamed("aborted", "Response to `abort`.", origin),
] as const
