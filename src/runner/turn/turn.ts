/** What a turn is: its identity, its phases, what can happen to it and what it asks to be done. Data only. */
import type {
  AgentError,
  AgentEvent,
  AgentMessage,
  AgentPart,
  AgentQuestion,
  SessionStatus,
} from "../opencode/events/events.ts"
import type { OutboundFrame } from "../../wire/frames/index.ts"
import type { OpenPermission } from "./permissions.ts"
import type { OpenQuestion } from "./questions.ts"
import type { TextPart } from "./text.ts"
import type { ToolCall } from "./tool-calls.ts"

/** Whose turn it is. Every frame of the turn is addressed from here, never from "the current" anything. */
export interface TurnIdentity {
  /** The session agent's id of the prompt (`messageId` on the wire). Never the turn's own id. */
  readonly promptId: string
  /** The first attempt's; see `turnIdOf` for the one under way. */
  readonly turnId: string
  readonly channelType: string
  readonly channelId: string
  readonly sessionId: string
  /** The id we chose for the user's message in OpenCode: its answers name it as their parent. */
  readonly userMessageId: string
}

/** How long a turn may be silent, in milliseconds. */
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
  /** Models in the order in which they are tried; none leaves the choice to OpenCode. */
  readonly models: readonly string[]
  /** Ask the session agent instead of allowing once. */
  readonly relayPermissions: boolean
  /** The prompt steers a conversation at work: until its own answer begins, silence is the other turn's. */
  readonly joins: boolean
}

export type Outcome =
  | { readonly type: "ok" }
  | { readonly type: "error"; readonly error: string }
  | { readonly type: "canceled"; readonly reason: string }
  /** A later prompt steered the same conversation away: the words so far stand, the rest is that prompt's. */
  | { readonly type: "superseded" }

export type Phase = "asked" | "streaming" | "waiting" | "ending" | "ended"

/** An assistant message of this turn; a model step each. */
export interface TurnMessage {
  readonly id: string
  readonly open: boolean
  readonly isSummary: boolean
  readonly finish?: string
  readonly error?: AgentError
  /** Its `step-start` parts: a second one tells that the attempt before it was given up. */
  readonly steps?: readonly string[]
}

export interface FailedAttempt {
  readonly model: string
  readonly error: string
}

/** Why we stopped it, noted before OpenCode is told, so that the end is never taken for a failure of its own. */
export interface Stopped {
  readonly by: "user" | "budget" | "failover"
  readonly reason: string
}

export interface Turn {
  readonly identity: TurnIdentity
  readonly settings: TurnSettings
  readonly phase: Phase
  /** Which of the models is at work, from 0, and what became of those before it. */
  readonly attempt: number
  readonly failures: readonly FailedAttempt[]
  /** `message.create` has been sent: from here on the attempt must be finalized. */
  readonly created: boolean
  readonly status: "idle" | "thinking" | "streaming" | "tool_calling"
  readonly statusDetail: string | undefined
  readonly messages: readonly TurnMessage[]
  /** Messages of attempts that failed: they answer the same prompt, but are no part of this answer. */
  readonly voided: readonly string[]
  /** User messages whose answers are ours: the prompt's, and those that OpenCode adds when it compacts. */
  readonly parents: readonly string[]
  /** OpenCode's time of the prompt's message; later user messages of the session are OpenCode's own. */
  readonly askedAt: number | undefined
  /** The user message of a prompt that steers this conversation: its answers, and all later ones, are not ours. */
  readonly overtakenBy: string | undefined
  readonly texts: readonly TextPart[]
  /** How many reads of what the stream missed are under way: words that come meanwhile are held back. */
  readonly missing: number
  readonly tools: readonly ToolCall[]
  /** Sessions of sub-agents that work for this turn. */
  readonly children: readonly string[]
  /** Messages of sub-agents whose usage has been told. */
  readonly counted: readonly string[]
  readonly questions: readonly OpenQuestion[]
  readonly permissions: readonly OpenPermission[]
  /** The last `session.error`; it decides only when no message carries the outcome. */
  readonly error: AgentError | undefined
  /** What the provider said when OpenCode last had to wait for it, and until when. */
  readonly lastRetry: { readonly message: string; readonly next: number } | undefined
  readonly stopped: Stopped | undefined
  readonly posts: number
  /** How often a stopped session was found idle with no answer begun: OpenCode may be about to begin one. */
  readonly idleReads: number
  /** The model has said or done something in this attempt; an open message alone is OpenCode's doing. */
  readonly heard: boolean
  /** A tool has run: the prompt may have changed something and is not given to another model. */
  readonly toolRan: boolean
  readonly startedAt: number
  readonly progressAt: number
}

export type TimerName = "look" | "recheck" | "first-event" | "progress" | "total" | "stopping"

/**
 * Why the agent session is read again: the end of a turn, a prompt that nothing answers, a doubt, a gap in the
 * stream, a runner that came back.
 */
export type ReadReason = "end" | "look" | "recheck" | "gap" | "resume"

export interface StoredMessage {
  readonly message: AgentMessage
  readonly parts: readonly AgentPart[]
}

export interface SessionSnapshot {
  readonly status: SessionStatus
  readonly messages: readonly StoredMessage[]
  /** What the sub-agents' sessions hold. */
  readonly children: readonly StoredMessage[]
  /** What the agent waits for an answer to, in this session and its children; read only after a gap. */
  readonly asked?: {
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
  /** A runner that died had this turn; it goes on here. */
  | { readonly type: "resume" }
  /** `definite`: OpenCode said no. Otherwise it may have taken the prompt all the same. */
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
  /** A prompt that steers is about to be put into the same conversation. */
  | { readonly type: "overtaken"; readonly userMessageId: string }
  /** The event stream was cut and is back: what was said in between is unknown. */
  | { readonly type: "gap" }
  /** OpenCode itself is gone, and with it everything that ran. */
  | { readonly type: "agent-lost"; readonly error: string }

export type PermissionReply = "once" | "always" | "reject"

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
  voided: [],
  parents: [identity.userMessageId],
  askedAt: undefined,
  overtakenBy: undefined,
  texts: [],
  missing: 0,
  tools: [],
  children: [],
  counted: [],
  questions: [],
  permissions: [],
  error: undefined,
  lastRetry: undefined,
  stopped: undefined,
  posts: 0,
  idleReads: 0,
  heard: false,
  toolRan: false,
  startedAt: 0,
  progressAt: 0,
})

/** Every attempt is a turn of its own on the wire: a failed one is finalized, and its words are not mixed with others'. */
export const turnIdOf = ({
  identity,
  attempt,
}: {
  readonly identity: TurnIdentity
  readonly attempt: number
}): string => (attempt === 0 ? identity.turnId : `${identity.turnId}.${attempt + 1}`)
