/** One connection to a session: it subscribes, delivers events and replies, and dials again after a cut. */
import type { ClientMessage, Reply } from "../../../wire/clients/verbs.ts"
import type { HubEvent } from "../../view/view.ts"
import { loginKey } from "./login.ts"

/** The verbs that this login may use in the session. */
export interface AccessEvent {
  readonly type: "access"
  readonly verbs: readonly string[]
}

export interface SocketEvents {
  /** The connection is open: send `subscribe` and everything that waits. */
  readonly onOpen: () => void
  /** `wait` is the time until the next attempt. */
  readonly onClosed: (wait: number) => void
  readonly onRefused: () => void
  readonly onEvent: (event: HubEvent | AccessEvent) => void
  readonly onReply: (clientRequestId: string, reply: Reply) => void
}

export interface Socket {
  /** `false` when the connection is not open. */
  readonly send: (message: ClientMessage) => boolean
  readonly retryNow: () => void
  readonly close: () => void
}

const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 15_000
const PING_MS = 30_000
/** Close codes with which the hub says that this login may not read the session. */
const REFUSED = new Set([1008, 4401, 4403])

/** A browser sends no header of its own with a WebSocket: the key of the login is a subprotocol. */
export const dialHub = (path: string): WebSocket => {
  const key = loginKey()
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`
  return new WebSocket(address, ["sandpiper.1", ...(key ? [`key.${key}`] : [])])
}

export const openSocket = (path: string, events: SocketEvents): Socket => {
  let socket: WebSocket | undefined
  let attempts = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  let ping: ReturnType<typeof setInterval> | undefined
  let closed = false

  const dial = () => {
    clearTimeout(timer)
    const opened = dialHub(path)
    socket = opened
    opened.addEventListener("open", () => {
      if (socket !== opened) return
      attempts = 0
      ping = setInterval(() => opened.send('{"type":"ping"}'), PING_MS)
      events.onOpen()
    })
    opened.addEventListener("message", ({ data }) => {
      if (socket === opened && typeof data === "string") receive(data)
    })
    opened.addEventListener("close", ({ code }) => {
      if (socket !== opened) return
      clearInterval(ping)
      socket = undefined
      if (closed) return
      if (REFUSED.has(code)) return events.onRefused()
      const wait = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** attempts)
      attempts += 1
      events.onClosed(wait)
      timer = setTimeout(dial, wait)
    })
  }

  const receive = (text: string) => {
    const message = JSON.parse(text) as { readonly type: string; readonly clientRequestId?: string }
    if (message.type === "pong") return
    if (message.type === "reply") {
      const { type: _type, clientRequestId, ...reply } = message
      if (clientRequestId !== undefined) events.onReply(clientRequestId, reply as unknown as Reply)
    } else events.onEvent(message as unknown as HubEvent)
  }

  const retryNow = () => {
    if (closed || socket?.readyState === WebSocket.OPEN) return
    attempts = 0
    dial()
  }

  dial()
  return {
    send: (message) => {
      if (socket?.readyState !== WebSocket.OPEN) return false
      socket.send(JSON.stringify(message))
      return true
    },
    retryNow,
    close: () => {
      closed = true
      clearTimeout(timer)
      clearInterval(ping)
      socket?.close()
    },
  }
}
