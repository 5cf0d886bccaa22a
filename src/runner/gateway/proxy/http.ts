/** Carries one request to a backend and its answer back, as the bytes come, never faster than the slower end. */
import type { Clock } from "../../../lib/clock.ts"
import { createBodyReader } from "../http/body.ts"
import { answerForClient, type Passage, requestForBackend } from "../http/forward-head.ts"
import { BadHead } from "../http/fields.ts"
import { HEAD_LIMIT, parseResponseHead, type ResponseHead } from "../http/head.ts"
import type { ProxyRequest } from "../tcp/proxy-request.ts"
import type { Dialer, Upstream } from "../tcp/backend-connections.ts"
import { splice } from "./ws.ts"

export interface Errand extends Passage {
  readonly setCookie: string | undefined
  /** Nothing listens there, or what it says is not HTTP. */
  readonly failed: (why: "down" | "broken") => void
  /** A socket was opened; to be called again when it is over. */
  readonly opened: () => () => void
}

export interface ProxyPorts {
  readonly dialer: Dialer
  readonly clock: Clock
}

const END = Buffer.from("\r\n\r\n")
/** Asking these again does no harm, so they may go over a connection that might just be closing. */
const REPEATABLE = new Set(["GET", "HEAD", "OPTIONS"])

export const relay = (exchange: ProxyRequest, errand: Errand, ports: ProxyPorts): void => {
  const { head } = exchange
  const bytes = Buffer.from(requestForBackend(head, errand), "latin1")
  const repeatable = REPEATABLE.has(head.method) && head.framing.kind === "none"
  const used = repeatable && !errand.upgrade && head.version === "1.1"
  const known = used ? ports.dialer.reuse(errand.port) : undefined
  const fresh = () => void connectAndCarry()
  const connectAndCarry = async () => {
    const upstream = await ports.dialer.connect(errand.port)
    if (!exchange.isOpen()) return upstream?.close()
    if (upstream === undefined) return errand.failed("down")
    carry(exchange, errand, ports, upstream, bytes, () => errand.failed("broken"))
  }
  if (known === undefined) return fresh()
  carry(exchange, errand, ports, known, bytes, fresh)
}

/** `unanswered` is called when the connection ends before a byte of an answer has come. */
const carry = (
  exchange: ProxyRequest,
  errand: Errand,
  { dialer, clock }: ProxyPorts,
  upstream: Upstream,
  request: Buffer,
  unanswered: () => void,
): void => {
  let early: Buffer | undefined
  let answer: ResponseHead | undefined
  let body = createBodyReader({ kind: "none" })
  let sent = false

  const stop = () => upstream.close()
  const broken = () => {
    stop()
    if (answer === undefined) errand.failed("broken")
    else exchange.cut()
  }
  const toClient = (bytes: Buffer) => {
    if (!exchange.write(bytes)) upstream.pause()
  }

  const finishAnswer = (leftOver: number) => {
    if (answer === undefined) return
    const reusable = answer.keepAlive && leftOver === 0 && sent && exchange.head.version === "1.1"
    if (reusable) dialer.keep(upstream)
    else stop()
    exchange.finish(answer.framing.kind !== "until-close")
  }

  const readHead = (bytes: Buffer): void => {
    const all = early === undefined ? bytes : Buffer.concat([early, bytes])
    const end = all.indexOf(END)
    if (end === -1 || end > HEAD_LIMIT) {
      if (all.length > HEAD_LIMIT) return broken()
      early = all
      return
    }
    early = undefined
    const head = parseResponseHead(all.toString("latin1", 0, end), exchange.head.method)
    const rest = all.subarray(end + END.length)
    if (head.status === 101) return errand.upgrade ? upgraded(head, rest) : broken()
    if (head.status < 200) return rest.length > 0 ? readHead(rest) : undefined
    if (exchange.head.version === "1.0" && head.framing.kind === "chunked") return broken()
    answer = head
    exchange.status = head.status
    body = createBodyReader(head.framing)
    const keepAlive = exchange.head.keepAlive && head.framing.kind !== "until-close"
    const then = keepAlive ? "keep-alive" : "close"
    const text = answerForClient(head, errand, exchange.head.host, then)
    readBody(rest, text)
  }

  /** The head goes with the first bytes of the body: one write, one packet. */
  const readBody = (bytes: Buffer, headText?: string) => {
    let first = headText
    const taken = body.feed(bytes, (part) => {
      toClient(first === undefined ? part : joined(first, part))
      first = undefined
    })
    if (first !== undefined) toClient(Buffer.from(first, "latin1"))
    if (body.done()) finishAnswer(bytes.length - taken)
  }

  const upgraded = (head: ResponseHead, rest: Buffer) => {
    if (head.upgrade !== "websocket") return broken()
    exchange.status = 101
    const text = answerForClient(head, errand, exchange.head.host, "upgrade")
    exchange.write(Buffer.concat([Buffer.from(text, "latin1"), rest]))
    splice(exchange, upstream, rest, clock, errand.opened())
  }

  upstream.listen({
    data: (bytes) => {
      try {
        if (answer === undefined) readHead(bytes)
        else readBody(bytes)
      } catch (error) {
        if (!(error instanceof BadHead)) throw error
        broken()
      }
    },
    end: () => {
      if (answer?.framing.kind === "until-close") return finishAnswer(0)
      if (answer === undefined && early === undefined) {
        stop()
        return unanswered()
      }
      broken()
    },
    gone: () => {
      if (answer === undefined && early === undefined) return unanswered()
      broken()
    },
    drained: () => exchange.resume(),
  })

  upstream.outlet.write(request)
  if (exchange.head.framing.kind !== "none" && expectsContinue(exchange)) {
    exchange.interim("100 Continue")
  }
  exchange.receive(
    {
      data: (bytes) => {
        if (!upstream.outlet.write(bytes)) exchange.pause()
      },
      end: () => {
        sent = true
      },
      gone: stop,
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

const expectsContinue = ({ head }: ProxyRequest): boolean =>
  head.headers.some(({ key, value }) => key === "expect" && value.toLowerCase() === "100-continue")
