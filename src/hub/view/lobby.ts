/** The list of sessions that a client keeps by the events of the lobby. Pure. */
import type { LobbyEvent } from "../../wire/clients/lobby.ts"
import type { ListedSession } from "./sidebar-rows.ts"

/** `undefined` before the first list: an event for one session is then not applied. */
export const stepLobby = (
  sessions: readonly ListedSession[] | undefined,
  event: LobbyEvent,
): readonly ListedSession[] | undefined => {
  if (event.type === "lobby") return event.sessions
  if (sessions === undefined) return undefined
  if (event.type === "session.removed") return sessions.filter(({ id }) => id !== event.id)
  const { session } = event
  return sessions.some(({ id }) => id === session.id)
    ? sessions.map((one) => (one.id === session.id ? session : one))
    : [session, ...sessions]
}
