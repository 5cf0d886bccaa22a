/** OpenCode's events in one form for all supported versions. */

export interface AgentError {
  readonly name: string
  readonly message: string
  readonly statusCode?: number
  readonly isRetryable?: boolean
}

export interface AgentMessage {
  readonly id: string
  readonly agentSessionId: string
  readonly role: "user" | "assistant"
  readonly parentId?: string
  readonly createdAt: number
  readonly completed: boolean
  readonly error?: AgentError
  readonly finish?: string
  /** The summary of a compaction, which is not shown to people. */
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
  readonly agentSessionId: string
}

export interface AgentTextPart extends PartBase {
  readonly kind: "text" | "reasoning"
  readonly text: string
  /** The text is complete. */
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
  /** Of a `task` call: the agent session of the sub-agent that it started. */
  readonly childSessionId?: string
  /** The output so far of a call that runs. */
  readonly liveOutput?: string
  readonly details?: ToolDetails
}

/** What OpenCode knows of a call besides its input and output. */
export interface ToolDetails {
  readonly startedAt?: number
  readonly endedAt?: number
  readonly exit?: number
  /** What an edit changed, as a unified diff. */
  readonly diff?: string
  readonly files?: readonly {
    readonly path: string
    readonly added: number
    readonly removed: number
  }[]
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
  /** The options with their descriptions. Absent in turns that an older runner has stored. */
  readonly choices?: readonly { readonly label: string; readonly description?: string }[]
  readonly multiple: boolean
}

export interface TodoItem {
  readonly content: string
  readonly status: string
  readonly priority?: string
}

/** Every event carries the id of its agent session, except `connected` and `heartbeat`, which are about the stream. */
export type AgentEvent =
  | { readonly type: "connected" }
  | { readonly type: "heartbeat" }
  | { readonly type: "message"; readonly agentSessionId: string; readonly message: AgentMessage }
  | { readonly type: "part"; readonly agentSessionId: string; readonly part: AgentPart }
  | {
      readonly type: "delta"
      readonly agentSessionId: string
      readonly messageId: string
      readonly partId: string
      readonly delta: string
    }
  | { readonly type: "status"; readonly agentSessionId: string; readonly status: SessionStatus }
  | { readonly type: "idle"; readonly agentSessionId: string }
  | { readonly type: "error"; readonly agentSessionId: string; readonly error: AgentError }
  | { readonly type: "compacted"; readonly agentSessionId: string }
  | { readonly type: "todo"; readonly agentSessionId: string; readonly items: readonly TodoItem[] }
  | {
      readonly type: "session"
      readonly agentSessionId: string
      readonly parentId?: string
      readonly title?: string
    }
  | {
      readonly type: "question"
      readonly agentSessionId: string
      readonly requestId: string
      readonly questions: readonly AgentQuestion[]
      readonly callId?: string
    }
  | {
      readonly type: "question-closed"
      readonly agentSessionId: string
      readonly requestId: string
    }
  | {
      readonly type: "permission"
      readonly agentSessionId: string
      readonly permissionId: string
      readonly title: string
      readonly patterns: readonly string[]
      readonly tool?: string
      readonly callId?: string
    }

export type ParsedEvent =
  | { readonly kind: "event"; readonly id?: string; readonly event: AgentEvent }
  /** The durable copy of an event, with contiguous numbers within its agent session; the event has the same id. */
  | {
      readonly kind: "durable"
      readonly id: string
      readonly agentSessionId: string
      readonly seq: number
      /** Undefined when the runner does not use the type. */
      readonly event: AgentEvent | undefined
    }
  /** A type that the runner does not use; `known` if that is expected. */
  | { readonly kind: "unused"; readonly type: string; readonly known: boolean }
  | { readonly kind: "malformed"; readonly type: string; readonly problem: string }
