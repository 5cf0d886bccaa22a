/** Serves a request by the API: collects its body, and sends interim responses while the API works. */
import type { Clock } from "../../lib/clock.ts"
import type { Api } from "./api.ts"
import { errorResponse } from "./error-response.ts"
import type { Target } from "./http/target.ts"
import type { HttpExchange } from "./tcp/http-exchange.ts"

const BODY_LIMIT = 8 * 1024 * 1024
/** Proxies in front of the sandbox close connections that are silent for some minutes. */
const HEARTBEAT_MS = 30_000

export const serveApi = (
  exchange: HttpExchange,
  target: Target,
  api: Api,
  clock: Clock,
  onError: (error: unknown) => void,
): void => {
  const { head } = exchange
  if (head.framing.kind === "length" && head.framing.length > BODY_LIMIT) {
    return exchange.respond(tooLarge())
  }
  const pieces: Buffer[] = []
  let size = 0
  let stopHeartbeat = () => {}
  const startHeartbeat = () => {
    stopHeartbeat = clock.after(HEARTBEAT_MS, () => {
      exchange.interim("102 Processing")
      startHeartbeat()
    })
  }
  const run = async () => {
    startHeartbeat()
    try {
      const response = await api.fetch(
        new Request(`http://gateway${target.path}${target.search}`, {
          method: head.method,
          headers: passedHeaders(exchange),
          ...(size > 0 && { body: Buffer.concat(pieces) }),
        }),
      )
      const body = new Uint8Array(await response.arrayBuffer())
      const type = response.headers.get("content-type") ?? "application/json"
      exchange.respond({ status: response.status, headers: { "content-type": type }, body })
    } catch (error) {
      onError(error)
    } finally {
      stopHeartbeat()
    }
  }
  const expectsContinue = head.headers.some(({ key }) => key === "expect")
  if (expectsContinue && head.framing.kind !== "none") exchange.interim("100 Continue")
  exchange.receive(
    {
      data: (bytes) => {
        size += bytes.length
        if (size > BODY_LIMIT) return exchange.respond(tooLarge())
        pieces.push(bytes)
      },
      end: () => void run(),
      closed: () => stopHeartbeat(),
      drained: () => {},
    },
    "decoded",
  )
}

const tooLarge = () => errorResponse(413, "too-large", "the body is larger than 8 MiB")

const PASSED_HEADERS = new Set([
  "content-type",
  "idempotency-key",
  "prefer",
  "x-opencode-session-id",
  "x-opencode-message-id",
  "x-opencode-call-id",
])

const passedHeaders = ({ head }: HttpExchange): Record<string, string> =>
  Object.fromEntries(
    head.headers.flatMap(({ key, value }) => (PASSED_HEADERS.has(key) ? [[key, value]] : [])),
  )
