/** What a client knows of a session. Every value is immutable: what an action does not touch keeps its identity. */
import type {
  Artifact,
  ChangeList,
  ChannelSummary,
  Interaction,
  MessagePage,
  MessageWithParts,
  NumberedEvent,
  QueuedPrompt,
  Snapshot,
  Usage,
} from "../../wire/clients/conversation.ts"
import type { ClientMessage, Reply } from "../../wire/clients/verbs.ts"

/** The connection to the hub. `closed` has the time of the cut; `refused` is final. */
export type Link =
  | { readonly state: "connecting" }
  | { readonly state: "open" }
  | { readonly state: "closed"; readonly at: number }
  | { readonly state: "refused"; readonly status: number }

/** A request that has no reply yet, or that was refused. */
export interface Pending {
  readonly clientRequestId: string
  readonly message: ClientMessage
  /** When the person sent it. */
  readonly at: number
  /** On how many connections it was sent. */
  readonly tries: number
  /** The hub refused it. It is not sent again; the person edits it, sends it again or drops it. */
  readonly error?: { readonly code: string; readonly message: string }
}

/** The result of a `command`, `diff`, `review` or `new-session`. */
export type Answer = Omit<Extract<NumberedEvent, { type: "answer" }>, "type" | "rev">

export interface View {
  readonly link: Link
  /** The newest change that is applied. `undefined`: subscribe without a cursor and get a snapshot. */
  readonly cursor: number | undefined
  /** The only channel whose messages are kept; `undefined`: all channels. */
  readonly channel: string | undefined
  readonly messages: ReadonlyMap<string, MessageWithParts>
  /** The ids of `messages` by place. */
  readonly order: readonly string[]
  /** Older messages exist before this place. */
  readonly before: number | undefined
  /** Newer messages exist after this place: the view shows a page of the history and adds no new messages. */
  readonly after: number | undefined
  readonly channels: readonly ChannelSummary[]
  readonly queue: readonly QueuedPrompt[]
  /** Open questions and permissions of the whole session, oldest first. */
  readonly interactions: readonly Interaction[]
  readonly artifacts: readonly Artifact[]
  readonly usage: Usage
  readonly state: Readonly<Record<string, unknown>>
  /** The newest results, by `requestId`. */
  readonly answers: ReadonlyMap<string, Answer>
  readonly outbox: readonly Pending[]
  /** An event was missed: subscribe again. */
  readonly gap: boolean
}

export type HubEvent = NumberedEvent | Snapshot | ChangeList

export type Action =
  | { readonly type: "event"; readonly event: HubEvent }
  | { readonly type: "link"; readonly link: Link }
  | {
      readonly type: "ask"
      readonly clientRequestId: string
      readonly message: ClientMessage
      readonly at: number
    }
  /** Requests of an earlier page that were stored before it closed. */
  | { readonly type: "restore"; readonly pending: readonly Pending[] }
  | { readonly type: "reply"; readonly clientRequestId: string; readonly reply: Reply }
  /** A page of `history` with `before`. */
  | { readonly type: "older"; readonly page: MessagePage }
  /** A page of `history` with `after`. */
  | { readonly type: "newer"; readonly page: MessagePage }
  /** A page of `history` with `around`: it replaces the messages. Subscribe without a cursor to return to the newest. */
  | { readonly type: "around"; readonly page: MessagePage }
  /** Drops a refused request. */
  | { readonly type: "forget"; readonly clientRequestId: string }

export const emptyView: View = {
  link: { state: "connecting" },
  cursor: undefined,
  channel: undefined,
  messages: new Map(),
  order: [],
  before: undefined,
  after: undefined,
  channels: [],
  queue: [],
  interactions: [],
  artifacts: [],
  usage: { input: 0, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0, cost: 0 },
  state: {},
  answers: new Map(),
  outbox: [],
  gap: false,
}
