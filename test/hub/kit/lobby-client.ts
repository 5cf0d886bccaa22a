/** A client of the lobby, like the sidebar of the page: it keeps the list of sessions by the events that it gets. */
import type { ListedSession, LobbyEvent } from "../../../src/wire/clients/lobby.ts"
import { untilTrue } from "../../kit/until-true.ts"

export interface LobbyClient {
  readonly sessions: () => readonly ListedSession[]
  readonly find: (id: string) => ListedSession | undefined
  readonly events: readonly LobbyEvent[]
  readonly closeCode: () => number | undefined
  readonly close: () => void
}

export const connectLobby = async (url: string, token: string): Promise<LobbyClient> => {
  const sessions = new Map<string, ListedSession>()
  const events: LobbyEvent[] = []
  let closeCode: number | undefined
  const apply = (event: LobbyEvent) => {
    events.push(event)
    if (event.type === "lobby") {
      sessions.clear()
      for (const session of event.sessions) sessions.set(session.id, session)
    } else if (event.type === "session") sessions.set(event.session.id, event.session)
    else sessions.delete(event.id)
  }
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/lobby/ws`, {
    headers: { Authorization: `Bearer ${token}` },
  })
  socket.addEventListener("message", ({ data }) => apply(JSON.parse(String(data))))
  socket.addEventListener("close", ({ code }) => (closeCode = code))
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve())
    socket.addEventListener("error", () => reject(new Error("the hub refused the lobby")))
  })
  socket.send('{"type":"subscribe"}')
  await untilTrue(() => events.length > 0, "the list of sessions")
  return {
    sessions: () => [...sessions.values()],
    find: (id) => sessions.get(id),
    events,
    closeCode: () => closeCode,
    close: () => socket.close(),
  }
}
