/**
 * The list of sessions over the lobby's socket: changes from elsewhere show without a reload. Where the host refuses the
 * socket, the list is read over HTTP as before.
 */
import type { LobbyEvent } from "../../../wire/clients/lobby.ts"
import { dialHub } from "./socket.ts"

export interface LobbySocket {
  readonly retryNow: () => void
  readonly close: () => void
}

const FIRST_WAIT_MS = 500
const MAX_WAIT_MS = 60_000
const PING_MS = 30_000

export const openLobby = (
  onEvent: (event: LobbyEvent) => void,
  /** The socket was closed or refused. */
  onClosed: () => void,
): LobbySocket => {
  let socket: WebSocket | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let attempts = 0
  let closed = false

  const dial = () => {
    clearTimeout(timer)
    const opened = dialHub("/hub/lobby/ws")
    let ping: ReturnType<typeof setInterval> | undefined
    socket = opened
    opened.addEventListener("open", () => {
      attempts = 0
      ping = setInterval(() => opened.send('{"type":"ping"}'), PING_MS)
      opened.send('{"type":"subscribe"}')
    })
    opened.addEventListener("message", ({ data }) => {
      // A pong and a refusal have no rev.
      const event = JSON.parse(String(data)) as LobbyEvent | { readonly type: string }
      if ("rev" in event) onEvent(event)
    })
    opened.addEventListener("close", () => {
      clearInterval(ping)
      if (socket !== opened) return
      socket = undefined
      if (closed) return
      onClosed()
      timer = setTimeout(dial, Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** attempts))
      attempts += 1
    })
  }

  dial()
  return {
    retryNow: () => {
      if (closed || socket !== undefined) return
      attempts = 0
      dial()
    },
    close: () => {
      closed = true
      clearTimeout(timer)
      socket?.close()
    },
  }
}
