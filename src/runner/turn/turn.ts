/** The data of a turn: identity, phases, events and effects. */
import type {
  AgentError,
  AgentEvent,
  AgentMessage,
  AgentPart,
  AgentQuestion,
  SessionStatus,
} from "../opencode/events/events.ts"
import type { OutboundFrame } from "../../wire/frames/index.ts"
import type { PermissionReply } from "../../wire/permission.ts"
import type { OpenPermission } from "./permissions.ts"
import type { OpenQuestion } from "./questions.ts"
import type { TextPart } from "./text.ts"
import type { ToolCall } from "./tool-calls.ts"
import type { ToolOutput } from "./tool-output.ts"

/** The ids of a turn. Every frame of the turn gets its address from here, never from a "current" turn. */
export interface TurnIdentity {
  /** The session agent's id of the prompt (`messageId` on the wire). Not the id of the turn. */
  readonly promptId: string
  /** The id of the first attempt; `turnIdOf` gives that of the current attempt. */
  readonly turnId: string
  readonly channelType: string
  readonly channelId: string
  readonly agentSessionId: string
  /** The id that the runner chose for the user message in OpenCode; its answers have it as their parent. */
  readonly userMessageId: string
}

/** How long a turn may wait for its first event, be silent, and run altogether, in milliseconds. */
export interface Budgets {
  readonly firstEvent: number
  readonly progress: number
  readonly total: number
}

export const defaultBudgets: Budgets = {
  firstEvent: 90_000,
  progress: 300_000,
  total: 7_200_000,
}

export interface TurnSettings {
  readonly budgets: Budgets
  /** Models in the order in which they are tried. If empty, OpenCode chooses. */
  readonly models: readonly string[]
  /** Relay permission requests to the session agent instead of allowing them once. */
  readonly relayPermissions: boolean
  /** The prompt steers a running conversation. It has no budget for silence until its own answer begins. */
  readonly joins: boolean
  /** Another client of OpenCode has posted the prompt: the runner shows the turn, and neither posts it nor limits it. */
  readonly observed?: boolean
  /** The user message of the next prompt. OpenCode has begun it, so this turn is over and ends with its first read. */
  readonly endsBefore?: string
}

export type Outcome =
  | { readonly type: "ok" }
  | { readonly type: "error"; readonly error: string }
  | { readonly type: "canceled"; readonly reason: string }
  /** A later prompt steers the conversation: the text so far is this turn's answer, the rest belongs to that prompt. */
  | { readonly type: "superseded" }

export type Phase = "asked" | "streaming" | "waiting" | "ending" | "ended"

/** An assistant message of this turn; one per model step. */
export interface TurnMessage {
  readonly id: string
  readonly open: boolean
  readonly isSummary: boolean
  readonly finish?: string
  readonly error?: AgentError
  /** The ids of its `step-start` parts: a second one means that OpenCode retried the attempt. */
  readonly steps?: readonly string[]
}

export interface FailedAttempt {
  readonly model: string
  readonly error: string
}

/** Why the turn is stopped. Set before the abort is sent, so that the abort is not taken for a failure. */
export interface Stopped {
  readonly by: "user" | "budget" | "failover"
  readonly reason: string
}

export interface Turn {
  readonly identity: TurnIdentity
  readonly settings: TurnSettings
  readonly phase: Phase
  /** Index of the current model, from 0; `failures` has one entry for each model before it. */
  readonly attempt: number
  readonly failures: readonly FailedAttempt[]
  /** `message.create` was sent, so the attempt must be finalized. */
  readonly created: boolean
  readonly status: "idle" | "thinking" | "streaming" | "tool_calling"
  readonly statusDetail: string | undefined
  readonly messages: readonly TurnMessage[]
  /** Messages of failed attempts: they answer the same prompt but are not part of this answer. */
  readonly discardedMessages: readonly string[]
  /** User messages whose answers belong to this turn: the prompt, and those that OpenCode adds when it compacts. */
  readonly parentIds: readonly string[]
  /** OpenCode's time of the prompt's user message; newer user messages were added by OpenCode itself. */
  readonly promptCreatedAt: number | undefined
  /** The user message of a prompt that steers this conversation: its answers and all later ones belong to that prompt. */
  readonly steeredBy: string | undefined
  readonly texts: readonly TextPart[]
  /** How many reads after a stream gap or restart are pending; until they are done, new text is held back. */
  readonly pendingCatchUps: number
  readonly tools: readonly ToolCall[]
  /** The output of running tools. Not stored: after a restart it is sent again from its start. */
  readonly outputs: readonly ToolOutput[]
  /** Sessions of sub-agents that work for this turn. */
  readonly children: readonly string[]
  /** Replies of sub-agents: their words are sent, their prompts and summaries are not. */
  readonly childMessages?: readonly string[]
  /** Messages of sub-agents whose usage was sent. */
  readonly countedChildMessages: readonly string[]
  readonly questions: readonly OpenQuestion[]
  readonly permissions: readonly OpenPermission[]
  /** The last `session.error`; it determines the outcome only if there is no message. */
  readonly error: AgentError | undefined
  /** The provider's error at OpenCode's last retry, and the time of that retry. */
  readonly lastRetry: { readonly message: string; readonly next: number } | undefined
  readonly stopped: Stopped | undefined
  /** A restarted runner has resumed the turn: it may have lost what would have told a broken-off answer from a whole one. */
  readonly resumed?: boolean
  readonly postCount: number
  /** How often a stopped session was read as idle without an answer: OpenCode may be about to start one. */
  readonly idleReads: number
  /** How often the session was read as busy since the last idle event; undefined before the first idle event. */
  readonly busyReads: number | undefined
  /** How often the session was read as idle while a message was open: OpenCode may be about to complete it. */
  readonly openReads: number
  /** A part of the model arrived in this attempt. An open message alone does not count: OpenCode creates it. */
  readonly modelResponded: boolean
  /** A tool has run and may have changed something, so the prompt is not retried with another model. */
  readonly toolRan: boolean
  readonly startedAt: number
  readonly progressAt: number
}

export type TimerName =
  | "post-check"
  | "recheck"
  | "first-event"
  | "progress"
  | "tool-output"
  | "total"
  | "stopping"

/**
 * Why the agent session is read: at the end of a turn, to check that a post was accepted, to check again, after a gap
 * in the event stream, after a restart of the runner.
 */
export type ReadReason = "end" | "post-check" | "recheck" | "stream-gap" | "resume"

export interface StoredMessage {
  readonly message: AgentMessage
  readonly parts: readonly AgentPart[]
}

export interface SessionSnapshot {
  readonly status: SessionStatus
  readonly messages: readonly StoredMessage[]
  /** Messages of the sub-agents' sessions. */
  readonly children: readonly StoredMessage[]
  /** Open questions and permission requests of this session and its sub-agents; read only after a gap or restart. */
  readonly openRequests?: {
    readonly questions: readonly {
      readonly requestId: string
      readonly questions: readonly AgentQuestion[]
    }[]
    readonly permissions: readonly {
      readonly permissionId: string
      readonly title: string
      readonly patterns: readonly string[]
    }[]
  }
}

export type TurnEvent =
  | { readonly type: "start" }
  /** The turn was restored after a restart of the runner. */
  | { readonly type: "resume" }
  /** `definite`: OpenCode refused the prompt. Otherwise it may have accepted it. */
  | { readonly type: "post-failed"; readonly error: string; readonly definite: boolean }
  | { readonly type: "agent"; readonly event: AgentEvent }
  | { readonly type: "read"; readonly why: ReadReason; readonly snapshot: SessionSnapshot }
  | { readonly type: "read-failed"; readonly why: ReadReason; readonly error: string }
  | { readonly type: "timer"; readonly name: TimerName }
  | { readonly type: "answer"; readonly questionId: string; readonly answer: string | boolean }
  | {
      readonly type: "permission-reply"
      readonly permissionId: string
      readonly reply: PermissionReply
    }
  | { readonly type: "stop"; readonly reason: string }
  /** A prompt that steers this conversation is about to be posted. */
  | { readonly type: "steered"; readonly userMessageId: string }
  /** The event stream was interrupted and is back: events in between were missed. */
  | { readonly type: "stream-gap" }
  /** The OpenCode process has ended, and with it everything that ran. */
  | { readonly type: "agent-lost"; readonly error: string }

export type Effect =
  | { readonly do: "send"; readonly frame: OutboundFrame }
  | { readonly do: "post"; readonly model: string | undefined }
  | { readonly do: "read"; readonly why: ReadReason; readonly children: readonly string[] }
  | { readonly do: "abort" }
  | { readonly do: "timer"; readonly name: TimerName; readonly ms: number }
  | {
      readonly do: "reply-question"
      readonly requestId: string
      readonly answers: readonly (readonly string[])[]
    }
  | { readonly do: "reject-question"; readonly requestId: string }
  | {
      readonly do: "reply-permission"
      readonly permissionId: string
      readonly reply: PermissionReply
    }
  | { readonly do: "ended"; readonly outcome: Outcome }

export const newTurn = (identity: TurnIdentity, settings: Partial<TurnSettings> = {}): Turn => ({
  identity,
  settings: {
    budgets: defaultBudgets,
    models: [],
    relayPermissions: false,
    joins: false,
    ...settings,
  },
  phase: "asked",
  attempt: 0,
  failures: [],
  created: false,
  status: "idle",
  statusDetail: undefined,
  messages: [],
  discardedMessages: [],
  parentIds: [identity.userMessageId],
  promptCreatedAt: undefined,
  steeredBy: undefined,
  texts: [],
  pendingCatchUps: 0,
  tools: [],
  outputs: [],
  children: [],
  countedChildMessages: [],
  questions: [],
  permissions: [],
  error: undefined,
  lastRetry: undefined,
  stopped: undefined,
  postCount: 0,
  idleReads: 0,
  busyReads: undefined,
  openReads: 0,
  modelResponded: false,
  toolRan: false,
  startedAt: 0,
  progressAt: 0,
})

/** On the wire every attempt has its own turn id: a failed attempt is finalized, and its text is not mixed with the next. */
export const turnIdOf = ({
  identity,
  attempt,
}: {
  readonly identity: TurnIdentity
  readonly attempt: number
}): string => (attempt === 0 ? identity.turnId : `${identity.turnId}.${attempt + 1}`)
