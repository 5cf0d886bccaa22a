/**
 * An HTTP API on loopback that fails on request: before or after a call was carried out, by silence, by a status or by a
 * cut connection.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

/** What goes wrong with the next matching call. `after`: the call is carried out and its answer is lost. */
export type CloudFault = "silent-before" | "silent-after" | "429" | "500" | "cut-before" | "cut-after"

export const RETRY_AFTER_SECONDS = 7

export interface HttpDouble {
  readonly url: string
  /** `METHOD /path` of every call in order. */
  readonly calls: string[]
  /** The body of every call that had one. */
  readonly bodies: { readonly call: string; readonly json: unknown }[]
  /** The next call whose `METHOD /path` matches fails like this. */
  readonly fail: (match: RegExp, fault: CloudFault) => void
  /** Faults that no call has met. */
  readonly pendingFaults: () => number
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

export const startHttpDouble = async (
  handle: (request: Request) => Promise<Response> | Response,
): Promise<HttpDouble> => {
  const calls: string[] = []
  const bodies: { readonly call: string; readonly json: unknown }[] = []
  const faults: { readonly match: RegExp; readonly fault: CloudFault }[] = []

  const takeFault = (call: string): CloudFault | undefined => {
    const index = faults.findIndex(({ match }) => match.test(call))
    return index === -1 ? undefined : faults.splice(index, 1)[0]?.fault
  }

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(incoming.url ?? "/", "http://double")
    const method = incoming.method ?? "GET"
    const call = `${method} ${url.pathname}`
    const body = await readBody(incoming)
    calls.push(call)
    if (body.length > 0) bodies.push({ call, json: parse(body) })
    const fault = takeFault(call)
    if (fault === "silent-before") return
    if (fault === "cut-before") return void incoming.socket.destroy()
    if (fault === "429" || fault === "500") {
      const headers = fault === "429" ? { "retry-after": String(RETRY_AFTER_SECONDS) } : undefined
      // The message repeats the credentials of the call, as careless servers do.
      const message = `failed: ${JSON.stringify(incoming.headers)}`
      return write(
        Response.json(
          { code: Number(fault), message },
          { status: Number(fault), ...(headers && { headers }) },
        ),
        response,
      )
    }
    const headers = Object.entries(incoming.headers).map(
      ([name, value]): [string, string] => [name, String(value)],
    )
    const request = new Request(url, {
      method,
      headers,
      ...(body.length > 0 && { body: new Uint8Array(body) }),
    })
    const result = await handle(request)
    if (fault === "silent-after") return
    if (fault === "cut-after") return void incoming.socket.destroy()
    await write(result, response)
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
    calls,
    bodies,
    fail: (match, fault) => void faults.push({ match, fault }),
    pendingFaults: () => faults.length,
    stop: async () => {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
