/** One client connection: carries out the effects of the machine in connection-state.ts on a socket and for the handlers. */
import type { Socket } from "bun"
import { errorResponse } from "../error-response.ts"
import type { RequestHead } from "../http/head.ts"
import { renderResponse } from "../http/response.ts"
import { isControlFrame } from "../http/ws-frames.ts"
import {
  type ConnectionEffect,
  type ConnectionEvent,
  type ConnectionState,
  evictionRank,
  isBodyComplete,
  newConnection,
  stepConnection,
} from "./connection-state.ts"
import type { ClientListener, HttpExchange } from "./http-exchange.ts"
import { createSocketWriter } from "./socket-writer.ts"

export interface Connection {
  readonly data: (bytes: Buffer) => void
  readonly end: () => void
  readonly closed: () => void
  readonly drain: () => void
  readonly phase: () => ConnectionState["name"]
  /** The request that is being served. */
  readonly exchange: () => HttpExchange | undefined
  /** The order in which connections are given up for new ones; see connection-state.ts. */
  readonly evictionRank: (at: number) => number | undefined
  /** Ends the connection to make room; between requests, after the bytes that are still queued. */
  readonly evict: () => void
  /** Ends the connection after the current response. */
  readonly retire: () => void
  readonly close: () => void
  /**
   * Ends the connection at once if `matches` holds for the request that it serves, or for the last one if its response
   * is still being sent. A WebSocket client is sent a close frame first. True if the connection was ended.
   */
  readonly drop: (matches: (exchange: HttpExchange) => boolean) => boolean
  /** Enforces the time limits; to be called once a second. */
  readonly sweep: (at: number) => void
}

export interface ConnectionOptions {
  readonly socket: Pick<
    Socket<unknown>,
    "remoteAddress" | "write" | "shutdown" | "pause" | "resume" | "end" | "terminate"
  >
  readonly now: () => number
  readonly onRequest: (exchange: HttpExchange) => void
  readonly onRequestOver: (exchange: HttpExchange) => void
  /** The client sent bytes that are not a valid request, and was sent this status. */
  readonly onRefused: (status: number) => void
}

/** The request that is being served. */
interface Current {
  readonly exchange: HttpExchange
  /** False as soon as the handler has ended the response, before the machine has processed that. */
  isOpen: boolean
  listener: ClientListener | undefined
  /** The bytes that tell a client of an upgraded connection why it ends. */
  closeMessage: () => Uint8Array | undefined
  bytesIn: number
  messageBytes: number
  bytesOut: number
}

export const createConnection = (options: ConnectionOptions): Connection => {
  const { socket, now } = options
  const writer = createSocketWriter(socket)
  let state = newConnection(now())
  let current: Current | undefined
  /** The request before: its response may still be waiting in `writer`. */
  let last: HttpExchange | undefined
  let activeAt = now()
  /** A request on this connection was authenticated. */
  let isTrusted = false
  /** Events that arise while another one is processed wait here: handlers may respond from inside an effect. */
  const queue: ConnectionEvent[] = []
  let isProcessing = false

  const dispatch = (event: ConnectionEvent): void => {
    if (isProcessing) return void queue.push(event)
    isProcessing = true
    try {
      for (let next: ConnectionEvent | undefined = event; next; next = queue.shift()) {
        const [after, effects] = stepConnection(state, next)
        state = after
        for (const effect of effects) perform(effect)
      }
    } finally {
      queue.length = 0
      isProcessing = false
    }
  }

  const perform = (effect: ConnectionEffect): void => {
    switch (effect.do) {
      case "begin-request":
        current = createCurrent(effect.head, effect.headBytes)
        return options.onRequest(current.exchange)
      case "deliver":
        return deliver(effect)
      case "end-input":
        return current?.listener?.end()
      case "end-request":
        return void endRequest()
      case "abandon-request":
        return endRequest()?.closed()
      case "pause-reading":
        return socket.pause()
      case "resume-reading":
        activeAt = now()
        return socket.resume()
      case "refuse": {
        const { status, message } = effect.error
        writer.write(renderResponse(errorResponse(status, "malformed", message), false, false))
        return options.onRefused(status)
      }
      case "finish-writing":
        activeAt = now()
        writer.finish()
        return writer.pendingBytes() === 0 ? dispatch({ type: "flushed", at: now() }) : undefined
      case "close-socket":
        return void socket.end()
      case "terminate-socket":
        return socket.terminate()
    }
  }

  /** A handler may respond while it is given bytes; it is given no more of them then. */
  const deliver = ({ pieces, consumed, isLast }: Extract<ConnectionEffect, { do: "deliver" }>) => {
    const to = current
    if (to === undefined) return
    to.bytesIn += consumed
    for (const piece of pieces) if (to.isOpen) to.listener?.data(piece)
    if (isLast && to.isOpen) to.listener?.end()
  }

  const endRequest = (): ClientListener | undefined => {
    const ended = current
    if (ended === undefined) return undefined
    current = undefined
    ended.isOpen = false
    last = ended.exchange
    const { listener } = ended
    // It may hold the body of the request, and the connection may stay idle for long.
    ended.listener = undefined
    isTrusted ||= ended.exchange.isTrusted
    options.onRequestOver(ended.exchange)
    return listener
  }

  const createCurrent = (head: RequestHead, headBytes: number): Current => {
    const write = (bytes: Uint8Array): boolean => {
      if (!self.isOpen) return true
      // The start of a response changes only how the rest of a body is received.
      if (self.bytesOut === 0 && state.name === "request" && !isBodyComplete(state)) {
        dispatch({ type: "response-started" })
      }
      self.bytesOut += bytes.length
      activeAt = now()
      return writer.write(bytes)
    }
    const finish = (delimited: boolean) => {
      if (!self.isOpen) return
      self.isOpen = false
      activeAt = now()
      dispatch({ type: "response-complete", delimited, at: activeAt })
    }
    const exchange: HttpExchange = {
      head,
      peer: socket.remoteAddress,
      route: "none",
      status: 0,
      isTrusted: false,
      receive: (listener, form) => {
        if (!self.isOpen) return
        self.listener = listener
        dispatch({ type: "body-wanted", form })
      },
      pause: () => {
        if (self.isOpen) dispatch({ type: "pause" })
      },
      resume: () => {
        if (self.isOpen) dispatch({ type: "resume" })
      },
      write,
      finish,
      abort: () => {
        if (!self.isOpen) return
        self.isOpen = false
        dispatch({ type: "response-aborted" })
      },
      respond: (response) => {
        if (!self.isOpen) return
        exchange.status = response.status
        const keepAlive =
          head.keepAlive && state.name === "request" && isBodyComplete(state) && !state.retiring
        write(renderResponse(response, head.method === "HEAD", keepAlive))
        finish(keepAlive)
      },
      interim: (line) => {
        if (self.isOpen && head.version === "1.1")
          writer.write(Buffer.from(`HTTP/1.1 ${line}\r\n\r\n`))
      },
      takeOver: (listener, closeMessage) => {
        self.listener = listener
        self.closeMessage = closeMessage
        dispatch({ type: "upgraded" })
        return {
          write,
          finish: writer.finish,
          end: () => {
            if (self.isOpen) dispatch({ type: "close" })
          },
          pendingBytes: writer.pendingBytes,
        }
      },
      isOpen: () => self.isOpen,
      bytesIn: () => self.bytesIn,
      messageBytes: () => self.messageBytes,
      bytesOut: () => self.bytesOut,
    }
    const self: Current = {
      exchange,
      isOpen: true,
      listener: undefined,
      closeMessage: () => undefined,
      bytesIn: headBytes,
      messageBytes: 0,
      bytesOut: 0,
    }
    return self
  }

  return {
    data: (bytes) => {
      const at = now()
      // Bytes that are dropped are not activity: they must not extend a deadline.
      if (state.name === "request" || state.name === "raw") activeAt = at
      if (state.name !== "raw") return dispatch({ type: "received", bytes, at })
      // The machine decides nothing about raw bytes, so they cost no event.
      if (current === undefined) return
      current.bytesIn += bytes.length
      if (!isControlFrame(bytes)) current.messageBytes += bytes.length
      current.listener?.data(bytes)
    },
    end: () => dispatch({ type: "client-ended", pendingBytes: writer.pendingBytes() }),
    closed: () => dispatch({ type: "socket-closed" }),
    drain: () => {
      activeAt = now()
      if (!writer.drain()) return
      if (state.name === "flushing") dispatch({ type: "flushed", at: activeAt })
      else current?.listener?.drained()
    },
    phase: () => state.name,
    exchange: () => current?.exchange,
    evictionRank: (at) =>
      evictionRank(state, isTrusted || current?.exchange.isTrusted === true, at),
    evict: () =>
      dispatch(
        state.name === "head" ? { type: "close" } : { type: "drop", closeMessageSent: false },
      ),
    retire: () => dispatch({ type: "retire" }),
    close: () => dispatch({ type: "close" }),
    drop: (matches) => {
      const isBlocked = writer.pendingBytes() > 0
      const served = current?.exchange ?? (isBlocked ? last : undefined)
      if (served === undefined || !matches(served)) return false
      // Behind bytes that the client does not accept, a close message would not arrive.
      const message = isBlocked ? undefined : current?.closeMessage()
      const closeMessageSent = message !== undefined && writer.write(message)
      dispatch({ type: "drop", closeMessageSent })
      return true
    },
    sweep: (at) => dispatch({ type: "tick", at, activeAt, pendingBytes: writer.pendingBytes() }),
  }
}
