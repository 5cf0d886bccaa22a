/** Every message that the session agent sends to the runner. */
import { z } from "zod"
import { frameParser } from "./parse.ts"
import { type ResultFrame, resultRows } from "./requests.ts"
import { type MessageRow, row } from "./row.ts"
import {
  agentConfig,
  attachment,
  author,
  channel,
  modelPreferences,
  requestId,
  seq,
  someChannel,
} from "./shapes.ts"
import { workflowOrder } from "./workflow.ts"

const commands = [
  row("prompt", "A message for the agent: starts a turn, or steers one that is busy.", {
    messageId: z.string(),
    content: z.string(),
    model: z.string().optional(),
    attachments: z.array(attachment).optional(),
    modelPreferences: modelPreferences.optional(),
    ...someChannel,
    opencodeSessionId: z.string().optional(),
    ...author,
    steer: z.boolean().optional(),
  }),
  row("answer", "The user's answer to a question that the agent asked.", {
    questionId: z.string(),
    answer: z.union([z.string(), z.boolean()], { error: "expected string or boolean" }),
  }),
  row("stop", "Shut the runner down.", {}),
  row("abort", "Cancel the turn of one channel; with no channel, of every one.", someChannel),
  row("revert", "Undo a message and all that followed it.", { messageId: z.string() }),
  row("diff", "Asks for the changes in the workspace.", { requestId }),
  row("review", "Asks for a review of the changes in the workspace.", { requestId }),
  row("opencode-command", "Has the agent run one of its commands.", {
    command: z.string(),
    args: z.string().optional(),
    ...someChannel,
    requestId,
  }),
  row("new-session", "Gives a channel a fresh agent session.", { ...channel, requestId }),
  row("init", "Begin: the session agent is ready for frames.", {}),
  row("opencode-config", "Settings for the agent; an absent field keeps what was there.", {
    config: agentConfig,
  }),
  row("pong", "Answers `ping`.", {}),
  row("tunnel-delete", "Take a tunnel down, on behalf of whoever asked for it.", {
    name: z.string(),
    actorId: z.string().optional(),
    actorName: z.string().optional(),
    actorEmail: z.string().optional(),
  }),
  row("workflow-execute", "Run a workflow, or go on with one that waited for approval.", {
    executionId: z.string(),
    model: z.string().optional(),
    modelPreferences: modelPreferences.optional(),
    payload: workflowOrder,
  }),
  row("welcome", "Accepts `hello`: says the last frame of this epoch that is stored.", {
    protocol: z.literal(2),
    lastSeq: seq,
  }),
  row("ack", "All frames up to this one are stored.", { seq }),
  row("permission-reply", "The user's decision on a permission that the agent asked for.", {
    permissionId: z.string(),
    reply: z.enum(["once", "always", "reject"]),
  }),
] as const

/** What the session agent says of its own accord: everything but the answers to requests. */
export type CommandFrame = z.output<(typeof commands)[number]["schema"]>

export type InboundFrame = CommandFrame | ResultFrame

/** The frame of one type. */
export type Inbound<Type extends InboundFrame["type"]> = Extract<
  InboundFrame,
  { readonly type: Type }
>

export const inboundMessages: readonly MessageRow<z.ZodType<InboundFrame>>[] = [
  ...commands,
  ...resultRows,
]

export const inboundTypes: readonly string[] = inboundMessages.map(({ type }) => type)

export const parseInbound = frameParser<InboundFrame>(
  new Map(inboundMessages.map(({ type, schema }) => [type, schema])),
)

/** For the session agent's queue, which stores prompts and reads them again. */
export const promptSchema = commands[0].schema
