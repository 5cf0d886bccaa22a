/** Forwards one request to a backend and its response to the client while the bytes arrive, at the speed of the slower end. */
import type { Clock } from "../../../lib/clock.ts"
import { readBody, startBody } from "../http/body.ts"
import {
  type ForwardedRequest,
  requestForBackend,
  responseForClient,
} from "../http/forward-head.ts"
import { HttpError } from "../http/fields.ts"
import { HEAD_LIMIT, parseResponseHead, type ResponseHead } from "../http/head.ts"
import type { HttpExchange } from "../tcp/http-exchange.ts"
import type { Dialer, Upstream } from "../tcp/backend-connections.ts"
import { joinSockets } from "./ws.ts"

export interface ProxyRequest extends ForwardedRequest {
  readonly setCookie: string | undefined
  readonly socketProtocol?: string | undefined
  /** The agent decides about the content. */
  readonly isolated: boolean
  /** Origins of pages that may show the backend in a frame; any page if there are none. */
  readonly framedBy?: readonly string[] | undefined
  /**
   * The backend keeps idle connections at least this long, so that any request may use one of them. It also reads the
   * body of every request, so that a connection may be kept after one.
   */
  readonly keepsIdleMs?: number
  /** `down`: nothing listens on the port. `broken`: the backend's response is not valid HTTP. */
  readonly onFailure: (why: "down" | "broken") => void
  /** A WebSocket was opened; the returned function is called when it is closed. */
  readonly onUpgrade: () => () => void
}

export interface ProxyPorts {
  readonly dialer: Dialer
  readonly clock: Clock
}

const HEAD_END = Buffer.from("\r\n\r\n")
/** Safe to repeat, so these may use a kept connection that the backend might be closing at this moment. */
const REPEATABLE = new Set(["GET", "HEAD", "OPTIONS"])

export const forwardRequest = (
  exchange: HttpExchange,
  request: ProxyRequest,
  ports: ProxyPorts,
): void => {
  const { head } = exchange
  const bytes = Buffer.from(requestForBackend(head, request), "latin1")
  const isRepeatable = REPEATABLE.has(head.method) && head.framing.kind === "none"
  const mayReuse = !request.upgrade && head.version === "1.1"
  const idleMs = isRepeatable ? undefined : (request.keepsIdleMs ?? -1)
  const kept = mayReuse ? ports.dialer.reuse(request.port, idleMs) : undefined
  const connectAndForward = async () => {
    const upstream = await ports.dialer.connect(request.port)
    if (!exchange.isOpen()) return upstream?.close()
    if (upstream === undefined) return request.onFailure("down")
    forwardOver(upstream, exchange, request, ports, bytes, () => request.onFailure("broken"))
  }
  const connectAnew = () => void connectAndForward()
  if (kept === undefined) return connectAnew()
  const onNoResponse = isRepeatable ? connectAnew : () => request.onFailure("broken")
  forwardOver(kept, exchange, request, ports, bytes, onNoResponse)
}

/** `onNoResponse` is called when the connection ends before the first byte of a response. */
const forwardOver = (
  upstream: Upstream,
  exchange: HttpExchange,
  request: ProxyRequest,
  { dialer, clock }: ProxyPorts,
  requestBytes: Buffer,
  onNoResponse: () => void,
): void => {
  let partialHead: Buffer | undefined
  let response: ResponseHead | undefined
  let body = startBody({ kind: "none" })
  let isRequestSent = false

  const stop = () => upstream.close()
  const fail = () => {
    stop()
    if (response === undefined) request.onFailure("broken")
    else exchange.abort()
  }
  const toClient = (bytes: Buffer) => {
    if (!exchange.write(bytes)) upstream.pause()
  }

  const finishResponse = (leftOver: number) => {
    if (response === undefined) return
    // A backend that did not read the body takes its bytes for the next request.
    const isBodyRead = exchange.head.framing.kind === "none" || request.keepsIdleMs !== undefined
    const isReusable =
      response.keepAlive &&
      leftOver === 0 &&
      isRequestSent &&
      isBodyRead &&
      exchange.head.version === "1.1"
    if (isReusable) dialer.keep(upstream)
    else stop()
    exchange.finish(response.framing.kind !== "until-close")
  }

  const readHead = (bytes: Buffer): void => {
    const all = partialHead === undefined ? bytes : Buffer.concat([partialHead, bytes])
    const end = all.indexOf(HEAD_END)
    if (end > HEAD_LIMIT) return fail()
    if (end === -1) {
      if (all.length >= HEAD_LIMIT + HEAD_END.length) return fail()
      partialHead = all
      return
    }
    partialHead = undefined
    const head = parseResponseHead(all.toString("latin1", 0, end), exchange.head.method)
    const rest = all.subarray(end + HEAD_END.length)
    if (head.status === 101) return request.upgrade ? upgrade(head, rest) : fail()
    if (head.status < 200) return rest.length > 0 ? readHead(rest) : undefined
    if (exchange.head.version === "1.0" && head.framing.kind === "chunked") return fail()
    response = head
    exchange.status = head.status
    body = startBody(head.framing)
    const keepAlive = exchange.head.keepAlive && head.framing.kind !== "until-close"
    const after = keepAlive ? "keep-alive" : "close"
    forwardBody(rest, responseForClient(head, request, exchange.head.host, after))
  }

  /** The head is sent together with the first bytes of the body: one write, one packet. */
  const forwardBody = (bytes: Buffer, headText?: string) => {
    const progress = readBody(body, bytes)
    body = progress.state
    let unsentHead = headText
    for (const piece of progress.pieces) {
      toClient(unsentHead === undefined ? piece : joined(unsentHead, piece))
      unsentHead = undefined
    }
    if (unsentHead !== undefined) toClient(Buffer.from(unsentHead, "latin1"))
    if (body.kind === "done") finishResponse(bytes.length - progress.consumed)
  }

  const upgrade = (head: ResponseHead, rest: Buffer) => {
    if (head.upgrade !== "websocket") return fail()
    exchange.status = 101
    const text = responseForClient(head, request, exchange.head.host, "upgrade")
    exchange.write(Buffer.concat([Buffer.from(text, "latin1"), rest]))
    joinSockets(exchange, upstream, rest, clock, request.onUpgrade())
  }

  upstream.listen({
    data: (bytes) => {
      try {
        if (response === undefined) readHead(bytes)
        else forwardBody(bytes)
      } catch (error) {
        if (!(error instanceof HttpError)) throw error
        fail()
      }
    },
    end: () => {
      if (response?.framing.kind === "until-close") return finishResponse(0)
      if (response === undefined && partialHead === undefined) {
        stop()
        return onNoResponse()
      }
      fail()
    },
    closed: () => {
      if (response === undefined && partialHead === undefined) return onNoResponse()
      fail()
    },
    drained: () => exchange.resume(),
  })

  upstream.writer.write(requestBytes)
  if (exchange.head.framing.kind !== "none" && expectsContinue(exchange)) {
    exchange.interim("100 Continue")
  }
  exchange.receive(
    {
      data: (bytes) => {
        if (!upstream.writer.write(bytes)) exchange.pause()
      },
      end: () => {
        isRequestSent = true
      },
      closed: stop,
      drained: () => upstream.resume(),
    },
    "verbatim",
  )
}

const joined = (head: string, body: Buffer): Buffer => {
  const bytes = Buffer.allocUnsafe(head.length + body.length)
  bytes.write(head, 0, "latin1")
  bytes.set(body, head.length)
  return bytes
}

const expectsContinue = ({ head }: HttpExchange): boolean =>
  head.headers.some(({ key, value }) => key === "expect" && value.toLowerCase() === "100-continue")
