/** Every frame that the session agent sends to the runner. */
import { z } from "zod"
import { permissionReply } from "../permission.ts"
import { frameParser } from "./parse.ts"
import { type ResultFrame, resultRows } from "./requests.ts"
import { type MessageRow, row } from "./row.ts"
import {
  agentConfig,
  attachment,
  author,
  channel,
  gitCredentials,
  modelPreferences,
  requestId,
  seq,
  optionalChannel,
} from "./shapes.ts"
import { workflowOrder } from "./workflow.ts"

/** Exported because the hub stores this frame until the session's runner has it. */
export const workflowExecute = row(
  "workflow-execute",
  "Run a workflow, or resume one that waited for approval; `delivered` says that a runner has accepted it before.",
  {
    executionId: z.string(),
    model: z.string().optional(),
    modelPreferences: modelPreferences.optional(),
    /** The runner has accepted this order before: a runner that does not know the execution must not start it. */
    delivered: z.boolean().optional(),
    payload: workflowOrder,
  },
)

const commands = [
  row("prompt", "A prompt for the agent: starts a turn, or with `steer` joins the running one.", {
    messageId: z.string(),
    content: z.string(),
    model: z.string().optional(),
    attachments: z.array(attachment).optional(),
    modelPreferences: modelPreferences.optional(),
    ...optionalChannel,
    opencodeSessionId: z.string().optional(),
    ...author,
    steer: z.boolean().optional(),
  }),
  row("answer", "The user's answer to a question of the agent.", {
    questionId: z.string(),
    answer: z.union([z.string(), z.boolean()], { error: "expected string or boolean" }),
  }),
  row("stop", "Shut the runner down.", {}),
  row(
    "abort",
    "Cancel the turn of one channel, or of all channels when none is given.",
    optionalChannel,
  ),
  row("revert", "Undo a message and all later ones.", { messageId: z.string() }),
  row("diff", "Request the changes in the workspace.", { requestId }),
  row("review", "Request a review of the changes in the workspace.", { requestId }),
  row("opencode-command", "Run a command of the agent.", {
    command: z.string(),
    args: z.string().optional(),
    ...optionalChannel,
    requestId,
  }),
  row("new-session", "Start a new agent session for a channel.", { ...channel, requestId }),
  row("init", "The session agent is ready for frames.", {}),
  row("opencode-config", "Config for the agent; absent fields keep their value.", {
    config: agentConfig,
    requestId: requestId.optional(),
  }),
  row(
    "git-credentials",
    "Token and author for git, for the runner's memory only: replaces the former frame, an empty one removes it. Sent if `accepts` of `hello` names it.",
    gitCredentials.shape,
  ),
  row("pong", "Response to `ping`.", {}),
  row("tunnel-delete", "Delete a tunnel on behalf of a user.", {
    name: z.string(),
    actorId: z.string().optional(),
    actorName: z.string().optional(),
    actorEmail: z.string().optional(),
  }),
  workflowExecute,
  row("welcome", "Accepts `hello`; `lastSeq` is the last stored frame of this epoch.", {
    protocol: z.literal(2),
    lastSeq: seq,
  }),
  row("ack", "All frames up to `seq` are stored.", { seq }),
  row("permission-reply", "The user's decision on a permission request of the agent.", {
    permissionId: z.string(),
    reply: permissionReply,
  }),
] as const

/** Every inbound frame except the results of the runner's requests. */
export type CommandFrame = z.output<(typeof commands)[number]["schema"]>

export type InboundFrame = CommandFrame | ResultFrame

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
