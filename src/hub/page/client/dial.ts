/** A WebSocket to the hub that is dialled again after a cut, with a growing wait, and kept alive with pings. */
import { loginKey } from "./login.ts"

export interface DialOptions {
  readonly path: string
  /** The wait before the first attempt after a cut; it doubles with every failed one. */
  readonly firstWaitMs: number
  readonly maxWaitMs: number
  readonly onOpen: () => void
  readonly onText: (text: string) => void
  /** `wait` is the time until the next attempt. */
  readonly onClosed: (wait: number) => void
  /** Close codes after which it is not dialled again; `onFinal` is called instead of `onClosed`. */
  readonly isFinal?: (code: number) => boolean
  readonly onFinal?: () => void
}

export interface Dialled {
  /** `false` when the connection is not open. */
  readonly send: (text: string) => boolean
  /** Dials at once, unless the connection is open. An attempt in progress is given up. */
  readonly retryNow: () => void
  readonly close: () => void
}

const PING_MS = 30_000

/** A browser sends no header of its own with a WebSocket: the key of the login is a subprotocol. */
const openWebSocket = (path: string): WebSocket => {
  const key = loginKey()
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`
  return new WebSocket(address, ["sandpiper.1", ...(key ? [`key.${key}`] : [])])
}

export const dial = (options: DialOptions): Dialled => {
  let socket: WebSocket | undefined
  let attempts = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  let ping: ReturnType<typeof setInterval> | undefined
  let closed = false

  const connect = () => {
    clearTimeout(timer)
    clearInterval(ping)
    const opened = openWebSocket(options.path)
    socket = opened
    opened.addEventListener("open", () => {
      if (socket !== opened) return
      attempts = 0
      ping = setInterval(() => opened.send('{"type":"ping"}'), PING_MS)
      options.onOpen()
    })
    opened.addEventListener("message", ({ data }) => {
      if (socket === opened && typeof data === "string") options.onText(data)
    })
    opened.addEventListener("close", ({ code }) => {
      if (socket !== opened) return
      clearInterval(ping)
      socket = undefined
      if (closed) return
      if (options.isFinal?.(code) === true) return options.onFinal?.()
      const wait = Math.min(options.maxWaitMs, options.firstWaitMs * 2 ** attempts)
      attempts += 1
      options.onClosed(wait)
      timer = setTimeout(connect, wait)
    })
  }

  connect()
  return {
    send: (text) => {
      if (socket?.readyState !== WebSocket.OPEN) return false
      socket.send(text)
      return true
    },
    retryNow: () => {
      if (closed || socket?.readyState === WebSocket.OPEN) return
      attempts = 0
      const pending = socket
      connect()
      pending?.close()
    },
    close: () => {
      closed = true
      clearTimeout(timer)
      clearInterval(ping)
      socket?.close()
    },
  }
}
