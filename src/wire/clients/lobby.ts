/** What clients read of the list of sessions, and the events of the lobby, which keep the list up to date. */
import type { ChannelSummary } from "./conversation.ts"

/** What a session does now. */
export interface LiveStatus {
  /** Its runner is connected. */
  readonly connected: boolean
  /** Prompts that run, prompts in the queue, open questions and permissions. */
  readonly working: number
  readonly queued: number
  readonly waiting: number
  readonly channels: readonly ChannelSummary[]
}

export interface ListedSession extends Partial<LiveStatus> {
  readonly id: string
  readonly owner: string
  readonly parent?: string
  readonly title: string
  readonly status: "running" | "ended"
  readonly createdAt: number
  /** When the newest message started or ended. */
  readonly activeAt: number
  /** The newest change of a message. */
  readonly rev: number
  /** A message is newer than the last time that this reader read the session. */
  readonly unread: boolean
  readonly dollars: number
  readonly tokens: number
  readonly bytes: number
}

/** `rev` orders the events of one connection. `lobby` replaces the whole list. */
export type LobbyEvent =
  | { readonly type: "lobby"; readonly rev: number; readonly sessions: readonly ListedSession[] }
  | { readonly type: "session"; readonly rev: number; readonly session: ListedSession }
  | { readonly type: "session.removed"; readonly rev: number; readonly id: string }
