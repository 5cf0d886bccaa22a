/**
 * An HTTP API on loopback that fails on request: before or after a call was carried out, by silence, by a status or by a
 * cut connection.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { createFaultClock, type FaultClock } from "./fault-clock.ts"
import { createFaults, type Faults, RETRY_AFTER_SECONDS } from "./faults.ts"

export interface HttpDouble {
  readonly url: string
  /** The clock of a provider whose deadlines the faults let pass. */
  readonly clock: FaultClock
  readonly faults: Faults
  /** Every call in order; the body if it is JSON. */
  readonly calls: { readonly method: string; readonly path: string; readonly json: unknown }[]
  readonly stop: () => Promise<void>
}

const readBody = async (request: IncomingMessage): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

const parse = (body: Buffer): unknown => {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

const write = async (answer: Response, response: ServerResponse): Promise<void> => {
  response.writeHead(answer.status, Object.fromEntries(answer.headers))
  response.end(new Uint8Array(await answer.arrayBuffer()))
}

const STATUS = { "too-many": 429, error: 500, "not-found": 404 } as const

/** The text repeats the credentials of the request, as careless servers do. */
const failure = (status: number, incoming: IncomingMessage): Response =>
  Response.json(
    { code: status, message: `failed: ${JSON.stringify(incoming.headers)}` },
    { status, headers: status === 429 ? { "retry-after": String(RETRY_AFTER_SECONDS) } : {} },
  )

export const startHttpDouble = async (
  secrets: readonly string[],
  handle: (request: Request) => Promise<Response> | Response,
): Promise<HttpDouble> => {
  const clock = createFaultClock()
  const faults = createFaults({ clock, secrets, hasRetryAfter: true })
  const calls: { readonly method: string; readonly path: string; readonly json: unknown }[] = []

  const requestOf = (incoming: IncomingMessage, url: URL, body: Buffer): Request =>
    new Request(url.href, {
      method: incoming.method ?? "GET",
      headers: Object.fromEntries(
        Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]),
      ),
      ...(body.length > 0 && { body: new Uint8Array(body) }),
    })

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(incoming.url ?? "/", "http://double")
    const body = await readBody(incoming)
    const fault = faults.take()
    calls.push({ method: incoming.method ?? "GET", path: url.pathname, json: parse(body) })
    if (fault === "too-many" || fault === "error" || fault === "not-found") {
      faults.hit()
      return write(failure(STATUS[fault], incoming), response)
    }
    const result = fault?.endsWith("-before")
      ? undefined
      : await handle(requestOf(incoming, url, body))
    if (fault === undefined && result) return write(result, response)
    if (fault?.startsWith("cut")) incoming.socket.destroy()
    else faults.onClear(() => incoming.socket.destroy())
    faults.hit()
  }

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((error: unknown) => {
      response.writeHead(500)
      response.end(String(error))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    clock,
    faults,
    calls,
    stop: async () => {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
