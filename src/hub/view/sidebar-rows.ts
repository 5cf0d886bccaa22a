/** The rows of the sidebar: the conversations of every session, newest first, in groups by day. */
import { MAIN_CHANNEL } from "../../wire/channel.ts"
import type { ChannelSummary } from "../../wire/clients/conversation.ts"

export type RowState = "working" | "waits" | "unseen" | "failed" | "idle" | "ended" | "away"

/** A session in the list of sessions, as far as the sidebar needs it. */
export interface ListedSession {
  readonly id: string
  readonly title: string
  readonly status: "running" | "ended"
  readonly parent?: string
  readonly connected?: boolean
  readonly channels?: readonly ChannelSummary[]
  readonly activeAt?: number
  readonly createdAt?: number
}

export interface SidebarRow {
  readonly session: string
  readonly channel: string
  readonly title: string
  readonly state: RowState
  /** `web`, `slack`, `telegram`, `workflow`: selects the icon. */
  readonly channelType: string
  readonly updatedAt: number
  /** 1: a child session, indented below its parent. */
  readonly depth: 0 | 1
}

export interface SidebarGroup {
  readonly label: "Today" | "Yesterday" | "Earlier"
  readonly rows: readonly SidebarRow[]
}

export interface SidebarInput {
  readonly sessions: readonly ListedSession[]
  /** The newest rev that the person has seen, by session and channel. */
  readonly seen: (session: string, channel: string) => number
  /** Midnight of today in the person's time zone, in milliseconds since 1970. */
  readonly today: number
}

const DAY_MS = 24 * 60 * 60 * 1000

export const sidebarGroups = (input: SidebarInput): readonly SidebarGroup[] => {
  const tops = input.sessions.filter(({ parent }) => !isListed(input.sessions, parent))
  const families = tops
    .flatMap((session) => familiesOf(input, session))
    .toSorted((a, b) => newest(b) - newest(a))
  const groups = new Map<SidebarGroup["label"], SidebarRow[]>()
  for (const rows of families) {
    const label = labelOf(newest(rows), input.today)
    groups.set(label, [...(groups.get(label) ?? []), ...rows])
  }
  return (["Today", "Yesterday", "Earlier"] as const).flatMap((label) => {
    const rows = groups.get(label)
    return rows ? [{ label, rows }] : []
  })
}

const isListed = (sessions: readonly ListedSession[], id: string | undefined): boolean =>
  id !== undefined && sessions.some((session) => session.id === id)

/** A conversation with the child sessions below it. Children stand below the newest conversation of their parent. */
const familiesOf = (input: SidebarInput, session: ListedSession): readonly SidebarRow[][] => {
  const own = rowsOf(input, session, 0)
  const children = descendants(input.sessions, session.id).flatMap((child) =>
    rowsOf(input, child, 1),
  )
  const [first, ...others] = own.toSorted((a, b) => b.updatedAt - a.updatedAt)
  return first ? [[first, ...children], ...others.map((row) => [row])] : []
}

const descendants = (
  sessions: readonly ListedSession[],
  id: string,
  known: readonly string[] = [id],
): readonly ListedSession[] =>
  sessions
    .filter(({ id: child, parent }) => parent === id && !known.includes(child))
    .flatMap((child) => [child, ...descendants(sessions, child.id, [...known, child.id])])

const rowsOf = (input: SidebarInput, session: ListedSession, depth: 0 | 1): SidebarRow[] => {
  const channels = session.channels ?? []
  if (channels.length === 0) return [emptyRow(session, depth)]
  return channels.map((channel) => ({
    session: session.id,
    channel: channel.key,
    title: titleOf(session, channel),
    state: stateOf(session, channel, input.seen(session.id, channel.key)),
    channelType: channel.key.slice(0, Math.max(0, channel.key.indexOf(":"))),
    updatedAt: channel.updatedAt,
    depth,
  }))
}

const emptyRow = (session: ListedSession, depth: 0 | 1): SidebarRow => ({
  session: session.id,
  channel: MAIN_CHANNEL,
  title: session.title === "" ? "New conversation" : session.title,
  state: session.status === "ended" ? "ended" : session.connected === false ? "away" : "idle",
  channelType: "web",
  updatedAt: session.activeAt ?? session.createdAt ?? 0,
  depth,
})

const titleOf = (session: ListedSession, { key, title, lastText }: ChannelSummary): string => {
  const named = title ?? (key === MAIN_CHANNEL ? session.title : "")
  if (named !== "") return named
  return lastText === undefined || lastText === "" ? "New conversation" : lastText
}

const stateOf = (session: ListedSession, channel: ChannelSummary, seen: number): RowState => {
  if (session.status === "ended") return "ended"
  if (channel.status === "waiting") return "waits"
  if (channel.status === "working") return "working"
  if (channel.status === "failed") return "failed"
  if (channel.rev > seen) return "unseen"
  return session.connected === false ? "away" : "idle"
}

const newest = (rows: readonly SidebarRow[]): number =>
  Math.max(0, ...rows.map(({ updatedAt }) => updatedAt))

const labelOf = (at: number, today: number): SidebarGroup["label"] =>
  at >= today ? "Today" : at >= today - DAY_MS ? "Yesterday" : "Earlier"
