/**
 * A shell as one WebSocket, for programs: output as binary messages, input as any message. A message that is
 * `{"type":"resize","cols":C,"rows":R}` changes the size. The shell ends with the connection; `?id=` joins an open terminal.
 */
import { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import { parseJson } from "../../lib/json.ts"
import type { Terminals } from "../sandbox/terminals.ts"
import { errorResponse } from "./error-response.ts"
import { queryValue, type Target } from "./http/target.ts"
import { notFound } from "./pages.ts"
import { acceptSocket, type AcceptedSocket, type SocketListener } from "./tcp/accept-socket.ts"
import type { HttpExchange } from "./tcp/http-exchange.ts"

export interface TerminalCall {
  readonly setCookie: string | undefined
  /** A WebSocket was opened; the returned function is called when it is closed. */
  readonly onUpgrade: () => () => void
}

const MOST_INPUT = 1024 * 1024
const LONGEST_RESIZE = 200
const side = z.coerce.number().int().min(1).max(1000)
const size = z.object({ cols: side, rows: side })
const resize = size.extend({ type: z.literal("resize") }).strict()

export const serveApiTerminal = (
  exchange: HttpExchange,
  { search }: Target,
  terminals: Terminals,
  clock: Clock,
  call: TerminalCall,
): void => {
  const wanted = size.safeParse({
    cols: queryValue(search, "cols") ?? 80,
    rows: queryValue(search, "rows") ?? 24,
  })
  if (!wanted.success)
    return exchange.respond(errorResponse(400, "malformed", "cols and rows must be 1 to 1000"))
  const given = queryValue(search, "id")
  if (given !== undefined && !terminals.list().some(({ id }) => id === given))
    return exchange.respond(notFound(exchange.head, "there is no terminal of this id"))
  const id = given ?? terminals.open(wanted.data, "API")
  if (id === undefined) {
    const why = "there are 8 terminals already: close one first"
    return exchange.respond(errorResponse(409, "too-many-terminals", why))
  }
  acceptSocket(
    exchange,
    { protocol: undefined, setCookie: call.setCookie, clock, mostBytes: MOST_INPUT },
    (socket) => {
      const closed = call.onUpgrade()
      return join(terminals, id, socket, () => {
        if (given === undefined) terminals.close(id)
        closed()
      })
    },
  )
}

const join = (
  terminals: Terminals,
  id: string,
  socket: AcceptedSocket,
  onClosed: () => void,
): SocketListener => {
  const terminal = terminals.view(id, {
    send: (bytes) => socket.send(bytes),
    ended: (why) => socket.close(1000, `the shell has ended: ${why}`),
  })
  return {
    message: (payload) => {
      const change = payload.length <= LONGEST_RESIZE ? resizeOf(payload.toString()) : undefined
      if (change) terminal?.resize(change.cols, change.rows)
      else terminal?.input(payload)
    },
    drained: () => terminal?.drained(),
    closed: () => {
      terminal?.leave()
      onClosed()
    },
  }
}

const resizeOf = (text: string): z.output<typeof resize> | undefined =>
  text.startsWith("{") ? resize.safeParse(parseJson(text)).data : undefined
