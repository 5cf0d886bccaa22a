/** The client of one `/v1` request: its body as a stream, and a response in pieces. Both wait for the slower side. */
import type { z } from "zod"
import { queryValue, type Target } from "../../gateway/http/target.ts"
import { renderHead } from "../../gateway/http/response.ts"
import { valueOf } from "../../gateway/http/request-info.ts"
import type { HttpExchange } from "../../gateway/tcp/http-exchange.ts"
import { invalid, Problem } from "./problem.ts"

export interface Client {
  readonly method: string
  readonly params: Readonly<Record<string, string>>
  /** The body in pieces. While they are not taken, the client waits. */
  readonly body: () => AsyncIterable<Buffer>
  /** Aborted when the client has closed its connection. */
  readonly gone: AbortSignal
  readonly bodyLength: number | undefined
  readonly header: (name: string) => string | undefined
  readonly query: (name: string) => string | undefined
  readonly json: <Schema extends z.ZodType>(schema: Schema) => Promise<z.output<Schema>>
  readonly sendJson: (value: unknown, status?: number) => void
  readonly sendNothing: () => void
  /** Starts a response in pieces. */
  readonly begin: (status: number, headers: Readonly<Record<string, string>>) => void
  /** Resolves when the client has room for more. */
  readonly write: (bytes: Uint8Array) => Promise<void>
  readonly finish: () => void
  /** Cuts the connection, so that the client notices that the response is not complete. */
  readonly abort: () => void
}

const MOST_QUEUED = 256 * 1024
const MOST_JSON = 1024 * 1024

export const createClient = (
  exchange: HttpExchange,
  target: Target,
  params: Readonly<Record<string, string>>,
): Client => {
  const { head } = exchange
  const gone = new AbortController()
  let queue: Buffer[] = []
  let queued = 0
  let isEnded = false
  let wake = () => {}
  let drained = () => {}
  exchange.receive(
    {
      data: (bytes) => {
        queue.push(bytes)
        queued += bytes.length
        if (queued >= MOST_QUEUED) exchange.pause()
        wake()
      },
      end: () => {
        isEnded = true
        wake()
      },
      closed: () => {
        gone.abort()
        wake()
        drained()
      },
      drained: () => drained(),
    },
    "decoded",
  )

  async function* body(): AsyncGenerator<Buffer> {
    for (;;) {
      if (queue.length > 0) {
        const pieces = queue
        queue = []
        queued = 0
        exchange.resume()
        yield* pieces
        continue
      }
      if (gone.signal.aborted) throw new Problem(400, "stream_error", "the upload was interrupted")
      if (isEnded) return
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }

  const json: Client["json"] = async (schema) => {
    const pieces: Buffer[] = []
    let size = 0
    for await (const piece of body()) {
      size += piece.length
      if (size > MOST_JSON) {
        throw new Problem(413, "invalid_request", `the body is larger than ${MOST_JSON} bytes`)
      }
      pieces.push(piece)
    }
    const parsed = schema.safeParse(parseJson(Buffer.concat(pieces).toString("utf8")))
    if (parsed.success) return parsed.data
    throw invalid(
      parsed.error.issues
        .map(({ path, message }) => `${path.join(".") || "the body"}: ${message}`)
        .join("; "),
    )
  }

  return {
    method: head.method,
    params,
    body,
    gone: gone.signal,
    bodyLength: head.framing.kind === "length" ? head.framing.length : undefined,
    header: (name) => valueOf(head, name),
    query: (name) => queryValue(target.search, name),
    json,
    sendJson: (value, status = 200) =>
      exchange.respond({
        status,
        headers: { "content-type": "application/json" },
        body: JSON.stringify(value),
      }),
    sendNothing: () => exchange.respond({ status: 204 }),
    begin: (status, headers) => {
      exchange.status = status
      exchange.write(renderHead(status, headers))
    },
    write: async (bytes) => {
      if (gone.signal.aborted || exchange.write(bytes)) return
      await new Promise<void>((resolve) => {
        drained = resolve
      })
    },
    finish: () => exchange.finish(true),
    abort: () => exchange.abort(),
  }
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid("the body is not JSON")
  }
}
