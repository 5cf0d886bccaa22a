/** One WebSocket connection to the session agent. Pings detect a dead connection. */
import { type RawData, WebSocket } from "ws"
import type { Clock } from "../../lib/clock.ts"
import { createTimers } from "../../lib/timer.ts"

export interface SocketEvents {
  readonly opened: () => void
  readonly message: (text: string) => void
  /** A socket ends with exactly one of `closed`, `refused`, `failed` and `unanswered`, once. */
  readonly closed: (code: number, reason: string) => void
  readonly refused: (status: number) => void
  readonly failed: (error: string) => void
  /** No connection within `dialMs`. */
  readonly unanswered: () => void
}

export interface Socket {
  readonly send: (text: string) => void
  /** False after the peer's close frame: anything sent after that would be discarded silently. */
  readonly isOpen: () => boolean
  /** Bytes in the socket's send buffer. */
  readonly buffered: () => number
  /** Sends a close frame; none of the events above follows. */
  readonly close: (code: number, reason: string) => void
}

export interface SocketOptions {
  readonly url: string
  readonly token: string
  readonly clock: Clock
  readonly events: SocketEvents
  readonly pingMs?: number
  readonly pongMs?: number
  readonly dialMs: number
}

/** How often to check for the peer's close frame, since the peer may keep the connection open after it. */
const CLOSING_POLL_MS = 250
const MAX_FRAME_BYTES = 32 * 1024 * 1024

export const dial = (options: SocketOptions): Socket => {
  const { clock, events, pingMs = 30_000, pongMs = 10_000, dialMs } = options
  const socket = new WebSocket(withQuery(options.url, options.token), {
    headers: { Authorization: `Bearer ${options.token}` },
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
    followRedirects: false,
  })
  const timers = createTimers<"dial" | "ping" | "pong" | "closing">(clock.after)
  let ended = false
  const end = (report: () => void) => {
    if (ended) return
    ended = true
    timers.cancelAll()
    report()
  }
  const fail = (error: string) =>
    end(() => {
      socket.terminate()
      events.failed(error)
    })

  const ping = () => {
    timers.arm("ping", pingMs, ping)
    if (socket.readyState !== WebSocket.OPEN) return
    socket.send('{"type":"ping"}')
    if (timers.isArmed("pong")) return
    timers.arm("pong", pongMs, () => fail(`no response to a ping within ${pongMs} ms`))
  }
  // Otherwise a peer that keeps the connection open after its close frame would delay the end by seconds.
  const watchClosing = () => {
    if (socket.readyState === WebSocket.CLOSING) socket.terminate()
    timers.arm("closing", CLOSING_POLL_MS, watchClosing)
  }

  timers.arm("dial", dialMs, () =>
    end(() => {
      socket.terminate()
      events.unanswered()
    }),
  )
  socket.on("open", () => {
    if (ended) return socket.terminate()
    timers.cancel("dial")
    timers.arm("ping", pingMs, ping)
    watchClosing()
    events.opened()
  })
  socket.on("message", (data) => {
    if (ended) return
    // Any message proves that the peer is alive, not only a pong.
    timers.cancel("pong")
    events.message(textOf(data))
  })
  socket.on("unexpected-response", (_request, response) =>
    end(() => {
      response.resume()
      socket.terminate()
      events.refused(response.statusCode ?? 0)
    }),
  )
  socket.on("error", (error) => {
    if (socket.readyState !== WebSocket.OPEN) fail(error.message)
  })
  socket.on("close", (code, reason) => end(() => events.closed(code, String(reason))))

  return {
    send: (text) => {
      if (!ended) socket.send(text)
    },
    isOpen: () => !ended && socket.readyState === WebSocket.OPEN,
    buffered: () => socket.bufferedAmount,
    close: (code, reason) =>
      end(() => {
        socket.close(code, reason)
        clock.after(1000, () => socket.terminate())
      }),
  }
}

/** Adds the role and the token to the query of the URL, where session agents expect them. */
const withQuery = (base: string, token: string): string => {
  const url = new URL(base)
  url.searchParams.set("role", "runner")
  url.searchParams.set("token", token)
  return url.href
}

const textOf = (data: RawData): string =>
  (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as ArrayBuffer)).toString()
