/**
 * Terminals over HTTP, below `/terminal/`: the document, the list, and one WebSocket per view with ttyd's messages. The
 * first byte of a message is its kind. To the client: `0` output, `1` title. From the client: `0` input, `1` size as JSON,
 * `2` pause, `3` resume; `{` begins ttyd's greeting, which has the size too.
 */
import { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import { parseJson } from "../../lib/json.ts"
import type { Terminals } from "../sandbox/terminals.ts"
import { errorResponse } from "./error-response.ts"
import { valueOf } from "./http/request-info.ts"
import { queryValue, type Target } from "./http/target.ts"
import { assetResponse, type PageFiles } from "../../lib/page/asset-response.ts"
import { assetHeaders, terminalHeaders } from "../../lib/page/page-headers.ts"
import { methodNotAllowed, notFound } from "./pages.ts"
import { asksForWebSocket } from "./proxy/ws.ts"
import { readSmallBody } from "./read-small-body.ts"
import { acceptSocket, type AcceptedSocket, type SocketListener } from "./tcp/accept-socket.ts"
import type { HttpExchange } from "./tcp/http-exchange.ts"

export interface TerminalPorts {
  readonly terminals: Terminals
  /** The built files of the page; the terminal's are below `terminal/`. */
  readonly files: PageFiles
}

export interface ServeTerminalsOptions extends TerminalPorts {
  readonly clock: Clock
  /** Origins of pages that may show the document in a frame. */
  readonly framedBy: (host: string) => readonly string[]
  readonly onError: (exchange: HttpExchange, error: unknown) => void
}

const PREFIX = "/terminal/"
const PROTOCOL = "tty"
const MOST_INPUT = 1024 * 1024
const side = z.int().min(1).max(1000)
const newTerminal = z.object({
  cols: side.default(80),
  rows: side.default(24),
  title: z.string().min(1).max(80).optional(),
})
const ttySize = z.object({ columns: side, rows: side })
const OUTPUT = "0"
const TITLE = "1"

export interface TerminalVisit {
  /** A new or renewed cookie, for the document and for the WebSocket. */
  readonly setCookie: string | undefined
  /** A WebSocket was opened; the returned function is called when it is closed. */
  readonly onUpgrade: () => () => void
}

export const createTerminalRoutes = (options: ServeTerminalsOptions) => {
  const { terminals, files, clock } = options

  const respondJson = (exchange: HttpExchange, status: number, body: unknown): void =>
    exchange.respond({
      status,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    })

  const open = (exchange: HttpExchange, text: string): void => {
    const wanted = newTerminal.safeParse(text === "" ? {} : parseJson(text))
    if (!wanted.success) {
      const why = "cols and rows must be 1 to 1000, title at most 80 characters"
      return exchange.respond(errorResponse(400, "malformed", why))
    }
    const { title, ...size } = wanted.data
    const id = terminals.open(size, title)
    if (id !== undefined) return respondJson(exchange, 201, { id })
    const why = "there are 8 terminals already: close one first"
    exchange.respond(errorResponse(409, "too-many-terminals", why))
  }

  const view = (exchange: HttpExchange, id: string, visit: TerminalVisit): void => {
    const { setCookie } = visit
    const offers = exchange.head.headers.some(
      ({ key, value }) =>
        key === "sec-websocket-protocol" && value.split(",").some((one) => one.trim() === PROTOCOL),
    )
    acceptSocket(
      exchange,
      { protocol: offers ? PROTOCOL : undefined, setCookie, clock, mostBytes: MOST_INPUT },
      (socket) => joinTerminal(terminals, id, socket, visit.onUpgrade()),
    )
  }

  const serveFile = (exchange: HttpExchange, name: string, { setCookie }: TerminalVisit): void => {
    const file = files.get(`terminal/${name || "index.html"}`)
    if (file === undefined) return exchange.respond(notFound(exchange.head))
    const headers =
      name === "" ? terminalHeaders(options.framedBy(exchange.head.host)) : assetHeaders
    const cookie: Record<string, string> =
      setCookie === undefined ? {} : { "set-cookie": setCookie }
    exchange.respond(
      assetResponse((header) => valueOf(exchange.head, header), file, { ...headers, ...cookie }),
    )
  }

  return (exchange: HttpExchange, target: Target, visit: TerminalVisit): void => {
    const { head } = exchange
    const name = target.path.slice(PREFIX.length)
    if (asksForWebSocket(head) && name === "ws") {
      const id = queryValue(target.search, "id") ?? ""
      const isKnown = terminals.list().some((one) => one.id === id)
      if (!isKnown) return exchange.respond(notFound(head, NO_TERMINAL))
      return view(exchange, id, visit)
    }
    if (name === "new") {
      if (head.method !== "POST") return exchange.respond(methodNotAllowed(head, "POST"))
      return readSmallBody(exchange, (text) => open(exchange, text), options.onError)
    }
    if (head.method === "DELETE") {
      if (!terminals.close(name)) return exchange.respond(notFound(head, NO_TERMINAL))
      return respondJson(exchange, 200, { ok: true })
    }
    if (head.method !== "GET" && head.method !== "HEAD")
      return exchange.respond(methodNotAllowed(head, "GET"))
    if (name === "list")
      return respondJson(exchange, 200, {
        terminals: terminals.list(),
        pages: options.framedBy(head.host),
      })
    serveFile(exchange, name, visit)
  }
}

const NO_TERMINAL = "there is no terminal of this id"

/** Joins a WebSocket and a view of a terminal. */
const joinTerminal = (
  terminals: Terminals,
  id: string,
  socket: AcceptedSocket,
  onClosed: () => void,
): SocketListener => {
  socket.send(Buffer.from(terminals.titleOf(id)), TITLE)
  const terminal = terminals.view(id, {
    send: (bytes) => socket.send(bytes, OUTPUT),
    ended: (why) => socket.close(1000, `the shell has ended: ${why}`),
  })
  const resize = (text: string) => {
    const size = ttySize.safeParse(parseJson(text))
    if (size.success) terminal?.resize(size.data.columns, size.data.rows)
  }
  return {
    message: (payload) => {
      const rest = payload.subarray(1)
      switch (String.fromCodePoint(payload[0] ?? 0)) {
        case "0":
          return terminal?.input(rest)
        case "1":
          return resize(rest.toString())
        case "2":
          return terminal?.pause()
        case "3":
          return terminal?.resume()
        case "{":
          return resize(payload.toString())
        default:
          return undefined
      }
    },
    drained: () => terminal?.drained(),
    closed: () => {
      terminal?.leave()
      onClosed()
    },
  }
}
