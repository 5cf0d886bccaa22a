/**
 * The list of sessions over the lobby's socket: changes from elsewhere show without a reload. Where the host refuses the
 * socket, the list is read over HTTP as before.
 */
import type { LobbyEvent } from "../../../wire/clients/lobby.ts"
import { type Dialled, dial } from "./dial.ts"

export type LobbySocket = Pick<Dialled, "retryNow" | "close">

export const openLobby = (
  onEvent: (event: LobbyEvent) => void,
  /** The socket was closed or refused. */
  onClosed: () => void,
): LobbySocket => {
  const socket = dial({
    path: "/hub/lobby/ws",
    firstWaitMs: 500,
    maxWaitMs: 60_000,
    onOpen: () => void socket.send('{"type":"subscribe"}'),
    onText: (text) => {
      // A pong and a refusal have no rev.
      const event = JSON.parse(text) as LobbyEvent | { readonly type: string }
      if ("rev" in event) onEvent(event)
    },
    onClosed,
  })
  return socket
}
