/** Accepts a WebSocket of a client that the gateway itself talks to, with backpressure and keep-alive. */
import { createHash } from "node:crypto"
import type { Clock } from "../../../lib/clock.ts"
import { valueOf } from "../http/request-info.ts"
import { closeFrame } from "../http/ws-frames.ts"
import {
  createMessageReader,
  OPCODES,
  renderMessage,
  type SocketMessage,
} from "../http/ws-messages.ts"
import type { HttpExchange } from "./http-exchange.ts"

export interface SocketListener {
  readonly message: (payload: Buffer) => void
  /** Everything that was sent has been accepted. */
  readonly drained: () => void
  readonly closed: () => void
}

export interface AcceptedSocket {
  /** `prefix` comes before the payload. False: nothing more until `drained`. */
  readonly send: (payload: Uint8Array, prefix?: string, opcode?: number) => boolean
  readonly close: (code: number, reason: string) => void
}

export interface AcceptOptions {
  readonly protocol: string | undefined
  readonly setCookie: string | undefined
  readonly clock: Clock
  readonly mostBytes: number
}

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
const PING_MS = 30_000
/** How long the client has to answer a close frame. */
const CLOSE_MS = 5000
const RESTORED = closeFrame(1012, "the sandbox was restored: connect again")
const NOTHING = new Uint8Array(0)

export const acceptSocket = (
  exchange: HttpExchange,
  options: AcceptOptions,
  listen: (socket: AcceptedSocket) => SocketListener,
): void => {
  const { clock } = options
  const reader = createMessageReader(options.mostBytes)
  let isClosed = false
  let isClosing = false
  let isAlive = true
  let cancel = () => {}

  const finish = () => {
    if (isClosed) return
    isClosed = true
    cancel()
    client.end()
    listener.closed()
  }
  const socket: AcceptedSocket = {
    send: (payload, prefix = "", opcode = OPCODES.binary) =>
      isClosing || isClosed || client.write(renderMessage(opcode, payload, prefix)),
    close: (code, reason) => {
      if (isClosing || isClosed) return
      isClosing = true
      client.write(closeFrame(code, reason))
      cancel()
      cancel = clock.after(CLOSE_MS, finish)
    },
  }
  const take = ({ kind, payload }: SocketMessage): void => {
    isAlive = true
    if (kind === "ping") void socket.send(payload, "", OPCODES.pong)
    if (kind === "close") {
      socket.close(1000, "")
      finish()
    }
    if (kind === "data" && !isClosing) listener.message(payload)
  }
  const ping = () => {
    if (!isAlive) return finish()
    isAlive = false
    void socket.send(NOTHING, "", OPCODES.ping)
    cancel = clock.after(PING_MS, ping)
  }

  exchange.status = 101
  exchange.write(Buffer.from(upgradeHead(exchange, options), "latin1"))
  const client = exchange.takeOver(
    {
      data: (bytes) => {
        const { messages, broken } = reader.feed(bytes)
        for (const message of messages) if (!isClosed) take(message)
        if (broken !== undefined) {
          socket.close(broken, "")
          finish()
        }
      },
      end: finish,
      closed: finish,
      drained: () => {
        if (!isClosed) listener.drained()
      },
    },
    () => (isClosing ? undefined : RESTORED),
  )
  const listener = listen(socket)
  cancel = clock.after(PING_MS, ping)
}

const upgradeHead = (
  { head }: HttpExchange,
  { protocol, setCookie }: Pick<AcceptOptions, "protocol" | "setCookie">,
): string => {
  const key = valueOf(head, "sec-websocket-key") ?? ""
  const accept = createHash("sha1").update(`${key}${GUID}`).digest("base64")
  return [
    "HTTP/1.1 101 Switching Protocols",
    "Upgrade: websocket",
    "Connection: Upgrade",
    `Sec-WebSocket-Accept: ${accept}`,
    ...(protocol === undefined ? [] : [`Sec-WebSocket-Protocol: ${protocol}`]),
    ...(setCookie === undefined ? [] : [`Set-Cookie: ${setCookie}`]),
    "",
    "",
  ].join("\r\n")
}
