/**
 * What clients read of a session: messages, queue, questions, and the events that carry them. The hub builds its rows and
 * its events from these shapes; a client uses them to parse.
 */
import { z } from "zod"

export const messageRole = z.enum(["user", "assistant", "system"])
/** A message is `streaming` until its turn ends; afterwards it does not change any more. */
export const messageStatus = z.enum(["streaming", "done", "error", "canceled"])
export const interactionKind = z.enum(["question", "permission", "approval"])
export const interactionStatus = z.enum(["open", "answered", "expired"])

const messagePart = z.object({
  id: z.string(),
  /** Orders the parts of a message. A part keeps its place when it changes. */
  place: z.number(),
  /**
   * `text` and `reasoning` have `text`; `reasoning`, and what a sub-agent wrote, also `data` (`PartData`). Every other
   * kind (`tool`, `todo`, ...) has `data`. A running tool may have `text` too: its output so far.
   */
  kind: z.string(),
  text: z.string().optional(),
  data: z.unknown().optional(),
})

/** Tokens and cost, of a message or of the whole session. */
export const usage = z.object({
  input: z.number(),
  output: z.number(),
  reasoning: z.number(),
  cacheRead: z.number(),
  cacheWrite: z.number(),
  cost: z.number(),
})

const message = z.object({
  id: z.string(),
  /** Orders the messages of a session. A message keeps its place when it changes. */
  place: z.number(),
  role: messageRole,
  channel: z.string(),
  status: messageStatus,
  createdAt: z.number(),
  promptId: z.string().optional(),
  /** Of a prompt: the `clientRequestId` that its client chose. */
  clientRequestId: z.string().optional(),
  /** Of a reply: the model that wrote it, and what it used. Present when the provider has reported it. */
  model: z.string().optional(),
  usage: usage.optional(),
  error: z.string().optional(),
  author: z.unknown().optional(),
  endedAt: z.number().optional(),
})

export const messageWithParts = message.extend({ parts: z.array(messagePart) })

export type MessagePart = z.output<typeof messagePart>
export type Message = z.output<typeof message>
export type MessageWithParts = z.output<typeof messageWithParts>

export type ToolStatus = "pending" | "running" | "completed" | "error"

/** `data` of a part of the kind `tool`. */
export interface ToolData {
  readonly callId: string
  readonly toolName: string
  readonly status: ToolStatus
  readonly args?: unknown
  readonly result?: unknown
  /** `canceled` when the turn was stopped. */
  readonly error?: string
  /** Milliseconds since 1970. */
  readonly startedAt?: number
  readonly endedAt?: number
  /** Exit code of a command. */
  readonly exit?: number
  /** What an edit changed, as a unified diff of at most 64 kB. */
  readonly diff?: string
  readonly files?: readonly FileCount[]
  /** The sub-agent's session that made this call. Absent for the turn's own calls. */
  readonly childSessionId?: string
  /** Of a `task` call: the session of the sub-agent that it started. Its parts have it as `childSessionId`. */
  readonly child?: string
  /** Of a `task` call: the kind of sub-agent. */
  readonly agent?: string
  /** Characters that were cut from the start of the part's `text`, which holds the end of the output. */
  readonly cut?: number
}

/** `data` of a part of the kind `reasoning`, and of a `text` that a sub-agent wrote. */
export interface PartData {
  readonly childSessionId?: string
  /** Of reasoning: its first words, and the next thing that the same agent did. Milliseconds since 1970. */
  readonly startedAt?: number
  readonly endedAt?: number
}

export interface FileCount {
  readonly path: string
  readonly added: number
  readonly removed: number
}

export interface QueuedPrompt {
  readonly id: string
  readonly channel: string
  readonly status: "queued" | "processing" | "stopping"
  readonly content: string
  readonly createdAt: number
  readonly clientRequestId?: string
  readonly files?: readonly PromptFile[]
}

export interface PromptFile {
  readonly mime: string
  readonly filename?: string
  /** The artifact with the image. Only images have one. */
  readonly artifact?: string
}

export interface Option {
  readonly label: string
  readonly description?: string
}

/** A question or a permission that the agent waits for, or an approval that a workflow waits for. Other fields of the runner's frame may follow. */
export interface Interaction {
  readonly id: string
  readonly kind: z.output<typeof interactionKind>
  readonly channel: string
  readonly status: z.output<typeof interactionStatus>
  readonly at: number
  readonly promptId?: string
  /** The message and the tool call that wait for it. */
  readonly messageId?: string
  readonly callId?: string
  /** The sub-agent's session that asks. */
  readonly childSessionId?: string
  /** Of an approval, which the verb `approve-execution` answers: `text` says what for. `items` are left out if they are long. */
  readonly executionId?: string
  readonly stepId?: string
  readonly items?: readonly unknown[]
  /** Of a question or an approval. */
  readonly text?: string
  readonly options?: readonly Option[]
  readonly multiple?: boolean
  /** Of a permission. */
  readonly title?: string
  readonly patterns?: readonly string[]
  readonly tool?: string
  readonly answer?: unknown
  readonly [field: string]: unknown
}

/** An image, or a file that the agent shows: `description` is then its path below `output/display`. */
export interface Artifact {
  readonly id: string
  readonly mime: string
  readonly bytes: number
  readonly description: string
  readonly at: number
  /** The message that it belongs to: a reply, or the prompt that it was attached to. */
  readonly messageId?: string
  readonly callId?: string
  readonly width?: number
  readonly height?: number
}

/** A conversation: one channel of the session. */
export interface ChannelSummary {
  readonly key: string
  readonly title?: string
  /** `waiting`: for an answer. `failed`: the last reply ended with an error. */
  readonly status: "idle" | "working" | "waiting" | "failed"
  /** Prompts that run, prompts in the queue, open questions and permissions. */
  readonly working: number
  readonly queued: number
  readonly waiting: number
  /** When the newest message started or ended. */
  readonly updatedAt: number
  /** The newest change of a message. It is unseen when it is greater than the rev of the state `seen:<key>`. */
  readonly rev: number
  /** The start of the newest message that has ended, at most 120 characters. */
  readonly lastText?: string
}

export type Usage = Readonly<z.output<typeof usage>>

/** A message that contains the text that was searched. */
export interface SearchHit {
  readonly messageId: string
  readonly place: number
  readonly role: z.output<typeof messageRole>
  readonly channel: string
  readonly at: number
  /** The text around the first match. */
  readonly text: string
  /** Where the matches are in `text`, in UTF-16 code units. */
  readonly marks: readonly (readonly [start: number, end: number])[]
}

/** One changed entity. Every event holds the entity's whole state, except `part.delta`, which holds appended text. */
export type SessionEvent =
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "part"; readonly messageId: string; readonly part: MessagePart }
  | {
      readonly type: "part.delta"
      readonly messageId: string
      readonly partId: string
      /** Position of `text` in the part's text, in UTF-16 code units. */
      readonly offset: number
      readonly text: string
    }
  | { readonly type: "removed"; readonly messageId: string }
  /** The part does not belong to the message any more: its text was withdrawn, for example by a retry of the provider. */
  | { readonly type: "part.removed"; readonly messageId: string; readonly partId: string }
  | { readonly type: "queue"; readonly queue: readonly QueuedPrompt[] }
  | { readonly type: "channel"; readonly channel: ChannelSummary }
  | { readonly type: "interaction"; readonly interaction: Interaction }
  /** `value` is `null` when the named value was removed. */
  | { readonly type: "state"; readonly name: string; readonly value: unknown }
  | {
      readonly type: "answer"
      readonly requestId: string
      readonly asked: string
      readonly status: string
      readonly result?: unknown
    }
  | { readonly type: "artifact"; readonly artifact: Artifact }
  | { readonly type: "usage"; readonly usage: Usage }

/** `rev` is the number of the change: the highest one that a client has seen is its cursor. */
export type NumberedEvent = SessionEvent & { readonly rev: number }

export interface MessagePage {
  readonly messages: readonly MessageWithParts[]
  /** Where the next older page ends; absent when there are no older messages. */
  readonly before?: number
  /** Where the next newer page starts; absent when there are no newer messages. */
  readonly after?: number
}

/** The reply to a `subscribe` with a cursor: what has changed since. */
export interface ChangeList {
  readonly type: "changes"
  readonly from: number
  readonly rev: number
  readonly events: readonly NumberedEvent[]
}

export interface Snapshot extends MessagePage {
  readonly type: "snapshot"
  readonly rev: number
  /** Present when the subscription names a channel: `messages` are those of this channel only. */
  readonly channel?: string
  readonly channels: readonly ChannelSummary[]
  readonly queue: readonly QueuedPrompt[]
  readonly interactions: readonly Interaction[]
  readonly artifacts: readonly Artifact[]
  readonly usage: Usage
  readonly state: Readonly<Record<string, unknown>>
}
