/**
 * What clients read of a session: messages, queue, questions, and the events that carry them. The hub builds its rows and
 * its events from these shapes; a client uses them to parse.
 */
import { z } from "zod"

export const messageRole = z.enum(["user", "assistant", "system"])
/** A message is `streaming` until its turn ends; afterwards it does not change any more. */
export const messageStatus = z.enum(["streaming", "done", "error", "canceled"])
export const interactionKind = z.enum(["question", "permission"])
export const interactionStatus = z.enum(["open", "answered", "expired"])

const messagePart = z.object({
  id: z.string(),
  /** `text` and `reasoning` have `text`; every other kind (`tool`, `todo`, ...) has `data`. */
  kind: z.string(),
  text: z.string().optional(),
  data: z.unknown().optional(),
})

const message = z.object({
  id: z.string(),
  role: messageRole,
  channel: z.string(),
  status: messageStatus,
  createdAt: z.number(),
  promptId: z.string().optional(),
  error: z.string().optional(),
  author: z.unknown().optional(),
  endedAt: z.number().optional(),
})

export const messageWithParts = message.extend({ parts: z.array(messagePart) })

export type MessagePart = z.output<typeof messagePart>
export type Message = z.output<typeof message>
export type MessageWithParts = z.output<typeof messageWithParts>

export interface QueuedPrompt {
  readonly id: string
  readonly channel: string
  readonly status: "queued" | "processing" | "stopping"
  readonly content: string
}

/** A question or a permission that the agent waits for; the other fields come from the runner's frame. */
export interface Interaction {
  readonly id: string
  readonly kind: z.output<typeof interactionKind>
  readonly channel: string
  readonly status: z.output<typeof interactionStatus>
  readonly promptId?: string
  readonly answer?: unknown
  readonly [field: string]: unknown
}

export interface Artifact {
  readonly id: string
  readonly mime: string
  readonly bytes: number
  readonly description: string
  readonly at: number
}

/** Tokens and cost of the whole session so far. */
export interface Usage {
  readonly input: number
  readonly output: number
  readonly reasoning: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly cost: number
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
}

export interface Snapshot extends MessagePage {
  readonly type: "snapshot"
  readonly rev: number
  readonly queue: readonly QueuedPrompt[]
  readonly interactions: readonly Interaction[]
  readonly artifacts: readonly Artifact[]
  readonly usage: Usage
  readonly state: Readonly<Record<string, unknown>>
}
