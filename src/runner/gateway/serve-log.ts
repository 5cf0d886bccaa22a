/** Streams the log of a service as server-sent events: the last lines first, then everything that is appended. */
import type { Clock } from "../../lib/clock.ts"
import type { ServiceLog } from "../sandbox/services/service-log.ts"
import { errorResponse } from "./error-response.ts"
import type { HttpExchange } from "./tcp/http-exchange.ts"

const INITIAL_BYTES = 10 * 1024
/** A reader that is this far behind loses lines instead of filling the memory. */
const BEHIND_BYTES = 256 * 1024
const HEARTBEAT_MS = 30_000

const HEAD =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n" +
  "x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"

export const serveLog = (
  exchange: HttpExchange,
  log: ServiceLog | undefined,
  clock: Clock,
  onError: (error: unknown) => void,
): void => {
  if (log === undefined) {
    return exchange.respond(errorResponse(404, "not-found", "there is no service of this name"))
  }
  const decoder = new TextDecoder()
  let waiting: Uint8Array[] = []
  let behind = 0
  let hasRoom = false
  let lost = false
  let stopHeartbeat = () => {}

  const write = (text: string) => {
    hasRoom = exchange.write(Buffer.from(text))
  }
  const send = (type: "initial" | "append", content: string) => {
    if (content !== "") write(`data: ${JSON.stringify({ type, content })}\n\n`)
  }
  const flush = () => {
    if (!hasRoom) return
    if (lost) send("append", "\n[sandpiper] lines were left out because the reader was too slow\n")
    lost = false
    const bytes = Buffer.concat(waiting)
    waiting = []
    behind = 0
    if (bytes.length > 0) send("append", decoder.decode(bytes, { stream: true }))
  }
  const stopFollowing = log.follow((bytes) => {
    if (behind + bytes.length > BEHIND_BYTES) {
      lost = true
      return
    }
    waiting.push(bytes)
    behind += bytes.length
    flush()
  })
  const beat = () => {
    stopHeartbeat = clock.after(HEARTBEAT_MS, () => {
      if (hasRoom) write(": still here\n\n")
      beat()
    })
  }
  const begin = async () => {
    const tail = await log.tail(INITIAL_BYTES)
    exchange.status = 200
    exchange.write(Buffer.from(HEAD, "latin1"))
    // What was appended while the tail was read is in the tail already.
    waiting = []
    behind = 0
    hasRoom = true
    send("initial", fromWholeCharacter(tail))
    beat()
  }
  exchange.receive(
    {
      data: () => {},
      end: () => void begin().catch(onError),
      closed: () => {
        stopFollowing()
        stopHeartbeat()
      },
      drained: () => {
        hasRoom = true
        flush()
      },
    },
    "decoded",
  )
}

/** The tail may begin inside a character: its continuation bytes are left out. */
const fromWholeCharacter = (bytes: Buffer): string => {
  const start = bytes.findIndex((byte) => (byte & 0xc0) !== 0x80)
  return bytes.subarray(Math.max(0, start)).toString("utf8")
}
