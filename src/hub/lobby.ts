/**
 * The lobby: connections that watch the list of sessions. After a change each connection's list is read again and compared
 * with what it was sent, so a change of access needs no event of its own.
 */
import type { ListedSession, LobbyEvent } from "../wire/clients/lobby.ts"
import { problemOfVerb } from "../wire/clients/verbs.ts"
import { parseLimitedJson } from "../wire/json-limits.ts"
import { ACCESS_ENDED } from "./access/close-connections.ts"
import { hasExpired, type Principal } from "./access/principal.ts"

export interface LobbyPorts {
  /** The sessions that the principal may read, last active first. */
  readonly list: (principal: Principal) => Promise<readonly ListedSession[]>
  readonly now: () => number
  readonly later: (ms: number, run: () => void) => () => void
  /** The list could not be read. The connection is closed; its client connects again. */
  readonly failed: (error: unknown) => void
}

export interface LobbyConnection {
  readonly principal: Principal
  readonly send: (text: string) => void
  readonly close: (code: number, reason: string) => void
  /** Called once, when the connection subscribes. */
  readonly onSubscribed?: () => void
}

export interface Lobby {
  /** `subscribed`: it has subscribed before its host slept. */
  readonly add: (id: string, connection: LobbyConnection, subscribed?: boolean) => void
  readonly receive: (id: string, text: string) => void
  readonly remove: (id: string) => void
  /** A session, its status or its members have changed. */
  readonly changed: () => void
  /** Closes the connections that were opened with this API key. */
  readonly keyRevoked: (prefix: string) => void
  readonly closeAll: (code: number, reason: string) => void
}

interface Watcher extends LobbyConnection {
  isSubscribed: boolean
  /** What it was sent of each session; `undefined` before the first list, and after a sleep of the host. */
  known: ReadonlyMap<string, string> | undefined
  isReading: boolean
  isStale: boolean
}

/** Changes within this time cause one read of the list. */
const QUIET_MS = 50

export const createLobby = ({ list, now, later, failed }: LobbyPorts): Lobby => {
  const watchers = new Map<string, Watcher>()
  let cancel: (() => void) | undefined
  let rev = 0
  /** Increases also across a restart of the host. */
  const nextRev = () => (rev = Math.max(rev + 1, now()))

  const end = (id: string, code: number, reason: string) => {
    const watcher = watchers.get(id)
    watchers.delete(id)
    watcher?.close(code, reason)
  }

  const push = async (id: string, watcher: Watcher): Promise<void> => {
    if (hasExpired(watcher.principal, now())) return end(id, ...ACCESS_ENDED)
    watcher.isStale = watcher.isReading
    if (watcher.isReading) return
    watcher.isReading = true
    try {
      const sessions = await list(watcher.principal)
      if (watchers.get(id) !== watcher) return
      const { events, known } = differenceOf(watcher.known, sessions, nextRev)
      watcher.known = known
      for (const event of events) watcher.send(JSON.stringify(event))
    } catch (error) {
      failed(error)
      return end(id, 1011, "the list could not be read")
    } finally {
      watcher.isReading = false
    }
    if (watcher.isStale) await push(id, watcher)
  }

  const changed = () => {
    if (watchers.size === 0) return
    cancel ??= later(QUIET_MS, () => {
      cancel = undefined
      for (const [id, watcher] of watchers) if (watcher.isSubscribed) void push(id, watcher)
    })
  }

  return {
    add: (id, connection, subscribed = false) => {
      const state = { isSubscribed: subscribed, isReading: false, isStale: false }
      watchers.set(id, { ...connection, ...state, known: undefined })
    },
    receive: (id, text) => {
      const watcher = watchers.get(id)
      if (!watcher) return
      const { type } = Object(parseLimitedJson(text)) as { readonly type?: unknown }
      if (type === "ping") return watcher.send('{"type":"pong"}')
      if (type !== "subscribe") return watcher.send(unknownVerb(type))
      if (!watcher.isSubscribed) watcher.onSubscribed?.()
      watcher.isSubscribed = true
      watcher.known = undefined
      void push(id, watcher)
    },
    remove: (id) => void watchers.delete(id),
    changed,
    keyRevoked: (prefix) => {
      for (const [id, { principal }] of watchers)
        if (principal.kind === "person" && principal.key === prefix) end(id, ...ACCESS_ENDED)
    },
    closeAll: (code, reason) => {
      cancel?.()
      for (const id of watchers.keys()) end(id, code, reason)
    },
  }
}

const unknownVerb = (verb: unknown): string =>
  JSON.stringify({
    type: "reply",
    ok: false,
    error: { code: "bad-request", message: problemOfVerb(verb, ["subscribe", "ping"]) },
  })

/** The events that turn the known list into the present one. */
const differenceOf = (
  known: ReadonlyMap<string, string> | undefined,
  sessions: readonly ListedSession[],
  nextRev: () => number,
): { readonly events: readonly LobbyEvent[]; readonly known: ReadonlyMap<string, string> } => {
  const present = new Map(sessions.map((session) => [session.id, JSON.stringify(session)]))
  if (!known) return { events: [{ type: "lobby", rev: nextRev(), sessions }], known: present }
  const events: LobbyEvent[] = sessions
    .filter(({ id }) => known.get(id) !== present.get(id))
    .map((session) => ({ type: "session", rev: nextRev(), session }))
  for (const id of known.keys())
    if (!present.has(id)) events.push({ type: "session.removed", rev: nextRev(), id })
  return { events, known: present }
}
