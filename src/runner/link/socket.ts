/** One WebSocket to the session agent, told as events: opened, frames, how it ended. A dead one is found out. */
import { type RawData, WebSocket } from "ws"
import type { Clock } from "../../lib/clock.ts"

export interface SocketEvents {
  readonly opened: () => void
  readonly message: (text: string) => void
  /** Every way to end is exactly one of these three, once. */
  readonly closed: (code: number, reason: string) => void
  readonly refused: (status: number) => void
  readonly failed: (error: string) => void
}

export interface Socket {
  readonly send: (text: string) => void
  /** False from the peer's close frame on: whatever is sent then is thrown away without a word. */
  readonly isOpen: () => boolean
  /** Bytes handed over that the network has not taken yet. */
  readonly buffered: () => number
  /** Ends it with a close frame; `drop` ends it without a word. */
  readonly close: (code: number, reason: string) => void
  readonly drop: () => void
}

export interface SocketOptions {
  readonly url: string
  readonly token: string
  readonly clock: Clock
  readonly events: SocketEvents
  readonly pingMs?: number
  readonly pongMs?: number
  readonly dialMs?: number
}

/** How often a close frame is looked for: the peer may leave the connection open long after it. */
const CLOSING_POLL_MS = 250
const MAX_FRAME_BYTES = 32 * 1024 * 1024

export const dial = (options: SocketOptions): Socket => {
  const { clock, events, pingMs = 30_000, pongMs = 10_000, dialMs = 15_000 } = options
  const socket = new WebSocket(withQuery(options.url, options.token), {
    headers: { Authorization: `Bearer ${options.token}` },
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
    followRedirects: false,
  })
  const timers = new Map<string, () => void>()
  const arm = (name: string, ms: number, run: () => void) => {
    timers.get(name)?.()
    timers.set(name, clock.after(ms, run))
  }
  let ended = false
  const end = (tell: () => void) => {
    if (ended) return
    ended = true
    for (const cancel of timers.values()) cancel()
    tell()
  }
  const fail = (error: string) =>
    end(() => {
      socket.terminate()
      events.failed(error)
    })

  // Any frame from the peer shows that it lives; only silence after our own ping condemns it.
  const cancelPongTimeout = () => {
    timers.get("pong")?.()
    timers.delete("pong")
  }
  const ping = () => {
    arm("ping", pingMs, ping)
    if (socket.readyState !== WebSocket.OPEN) return
    socket.send('{"type":"ping"}')
    if (!timers.has("pong")) arm("pong", pongMs, () => fail(`no answer to a ping in ${pongMs} ms`))
  }
  // A peer that sent its close frame but keeps the connection open would hold us for seconds.
  const watchClosing = () => {
    if (socket.readyState === WebSocket.CLOSING) socket.terminate()
    arm("closing", CLOSING_POLL_MS, watchClosing)
  }

  arm("dial", dialMs, () => fail(`no connection within ${dialMs} ms`))
  socket.on("open", () => {
    if (ended) return socket.terminate()
    timers.get("dial")?.()
    arm("ping", pingMs, ping)
    watchClosing()
    events.opened()
  })
  socket.on("message", (data) => {
    if (ended) return
    cancelPongTimeout()
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
    drop: () => end(() => socket.terminate()),
  }
}

/** The token travels in the query, as every session agent expects it, beside what the URL already has. */
const withQuery = (base: string, token: string): string => {
  const url = new URL(base)
  url.searchParams.set("role", "runner")
  url.searchParams.set("token", token)
  return url.href
}

const textOf = (data: RawData): string =>
  (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as ArrayBuffer)).toString()
