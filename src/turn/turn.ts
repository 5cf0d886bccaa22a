/** What a turn is: its identity, its phases, what can happen to it and what it asks to be done. Data only. */
import type {
  AgentError,
  AgentEvent,
  AgentMessage,
  AgentPart,
  SessionStatus,
} from "../agent/events.ts"
import type { OutboundFrame } from "../protocol/index.ts"
import type { OpenQuestion } from "./questions.ts"
import type { TextPart } from "./text.ts"
import type { ToolCall } from "./tool-calls.ts"

/** Whose turn it is. Every frame of the turn is addressed from here, never from "the current" anything. */
export interface TurnIdentity {
  /** The session agent's id of the prompt (`messageId` on the wire). Never the turn's own id. */
  readonly promptId: string
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

const defaultBudgets: Budgets = {
  firstEvent: 90_000,
  progress: 300_000,
  total: 7_200_000,
}

export type Outcome =
  | { readonly type: "ok" }
  | { readonly type: "error"; readonly error: string }
  | { readonly type: "canceled"; readonly reason: string }

export type Phase = "asked" | "streaming" | "waiting" | "ending" | "ended"

/** An assistant message of this turn; a model step each. */
export interface TurnMessage {
  readonly id: string
  readonly open: boolean
  readonly isSummary: boolean
  readonly error?: AgentError
}

export interface Turn {
  readonly identity: TurnIdentity
  readonly budgets: Budgets
  readonly phase: Phase
  /** `message.create` has been sent: from here on the turn must be finalized. */
  readonly created: boolean
  readonly status: "idle" | "thinking" | "streaming" | "tool_calling"
  readonly statusDetail: string | undefined
  readonly messages: readonly TurnMessage[]
  /** User messages whose answers are ours: the prompt's, and those that OpenCode adds when it compacts. */
  readonly parents: readonly string[]
  /** OpenCode's time of the prompt's message; later user messages of the session are OpenCode's own. */
  readonly askedAt: number | undefined
  readonly texts: readonly TextPart[]
  readonly tools: readonly ToolCall[]
  readonly questions: readonly OpenQuestion[]
  /** The last `session.error`; it decides only when no message carries the outcome. */
  readonly error: AgentError | undefined
  /** Why we stopped it, noted before OpenCode is told, so that the end is never taken for a failure of its own. */
  readonly stopped: { readonly by: "user" | "budget"; readonly reason: string } | undefined
  readonly posts: number
  readonly progressAt: number
}

export type TimerName = "look" | "recheck" | "first-event" | "progress" | "total"

/** Why the agent session is read again: the end of a turn, a prompt that nothing answers, a doubt, a gap in the stream. */
export type ReadReason = "end" | "look" | "recheck" | "gap"

export interface SessionSnapshot {
  readonly status: SessionStatus
  readonly messages: readonly {
    readonly message: AgentMessage
    readonly parts: readonly AgentPart[]
  }[]
}

export type TurnEvent =
  | { readonly type: "start" }
  | { readonly type: "posted" }
  /** `definite`: OpenCode said no. Otherwise it may have taken the prompt all the same. */
  | { readonly type: "post-failed"; readonly error: string; readonly definite: boolean }
  | { readonly type: "agent"; readonly event: AgentEvent }
  | { readonly type: "read"; readonly why: ReadReason; readonly snapshot: SessionSnapshot }
  | { readonly type: "read-failed"; readonly why: ReadReason; readonly error: string }
  | { readonly type: "timer"; readonly name: TimerName }
  | { readonly type: "answer"; readonly questionId: string; readonly answer: string | boolean }
  | { readonly type: "stop"; readonly reason: string }
  /** The event stream was cut and is back: what was said in between is unknown. */
  | { readonly type: "gap" }
  /** OpenCode itself is gone, and with it everything that ran. */
  | { readonly type: "agent-lost"; readonly error: string }

export type Effect =
  | { readonly do: "send"; readonly frame: OutboundFrame }
  | { readonly do: "post" }
  | { readonly do: "read"; readonly why: ReadReason }
  | { readonly do: "abort" }
  | { readonly do: "timer"; readonly name: TimerName; readonly ms: number }
  | {
      readonly do: "reply-question"
      readonly requestId: string
      readonly answers: readonly (readonly string[])[]
    }
  | { readonly do: "reject-question"; readonly requestId: string }
  | { readonly do: "allow"; readonly permissionId: string }
  | { readonly do: "ended"; readonly outcome: Outcome }

export const newTurn = (identity: TurnIdentity, budgets: Budgets = defaultBudgets): Turn => ({
  identity,
  budgets,
  phase: "asked",
  created: false,
  status: "idle",
  statusDetail: undefined,
  messages: [],
  parents: [identity.userMessageId],
  askedAt: undefined,
  texts: [],
  tools: [],
  questions: [],
  error: undefined,
  stopped: undefined,
  posts: 0,
  progressAt: 0,
})
