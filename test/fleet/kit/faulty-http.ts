/** An HTTP service on loopback or on a unix socket whose requests fail as the contract suite asks. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo, Socket } from "node:net"
import type { FaultKind, FaultSwitch } from "../provider-faults.ts"

export interface FaultyHttp {
  readonly url: string
  readonly faults: FaultSwitch
  /** Requests that change something. */
  readonly writes: () => number
  readonly stop: () => Promise<void>
}

export interface FaultyHttpOptions {
  readonly handle: (request: Request) => Promise<Response> | Response
  /** Absent: a port of loopback. */
  readonly unix?: string
  readonly secrets: readonly string[]
  /** Lets the deadlines of the provider pass. */
  readonly expire: () => void
  readonly isWrite?: (request: Request) => boolean
}

const readBody = async (incoming: IncomingMessage): Promise<Uint8Array<ArrayBuffer>> => {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk as Buffer)
  return Uint8Array.from(Buffer.concat(chunks))
}

const write = async (answer: Response, response: ServerResponse): Promise<void> => {
  response.writeHead(answer.status, Object.fromEntries(answer.headers))
  response.end(new Uint8Array(await answer.arrayBuffer()))
}

export const startFaultyHttp = async (options: FaultyHttpOptions): Promise<FaultyHttp> => {
  const count = { requests: 0, writes: 0 }
  let fault: { readonly kind: FaultKind; skip: number } | undefined
  let reached = Promise.withResolvers<void>()
  const hanging = new Set<Socket>()

  const faultOfNext = (): FaultKind | undefined => {
    if (!fault) return undefined
    if (fault.skip === 0) return fault.kind
    fault.skip -= 1
    return undefined
  }

  const carryOut = (incoming: IncomingMessage, body: Uint8Array<ArrayBuffer>) => {
    const headers = Object.entries(incoming.headers).map(([name, value]): [string, string] => [
      name,
      String(value),
    ])
    const method = incoming.method ?? "GET"
    const request = new Request(new URL(incoming.url ?? "/", "http://service").href, {
      method,
      headers,
      ...(body.length > 0 && method !== "GET" && { body }),
    })
    if (options.isWrite ? options.isWrite(request) : method !== "GET") count.writes += 1
    return options.handle(request)
  }

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await readBody(incoming)
    count.requests += 1
    const kind = faultOfNext()
    if (kind === undefined) return write(await carryOut(incoming, body), response)
    if (kind === "too-many" || kind === "error") {
      reached.resolve()
      const status = kind === "error" ? 500 : 429
      // A careless service repeats what it has received.
      const message = `failed: ${JSON.stringify(incoming.headers)} ${new TextDecoder().decode(body)}`
      const headers = kind === "error" ? {} : { "retry-after": "7" }
      return write(Response.json({ message }, { status, headers }), response)
    }
    if (kind.endsWith("-after")) await carryOut(incoming, body)
    if (kind.startsWith("cut")) incoming.socket.destroy()
    else hanging.add(incoming.socket)
    reached.resolve()
  }

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((error: unknown) => {
      response.writeHead(500)
      response.end(String(error))
    })
  })
  await new Promise<void>((resolve) => {
    if (options.unix === undefined) server.listen(0, "127.0.0.1", resolve)
    else server.listen(options.unix, resolve)
  })
  const port = options.unix === undefined ? (server.address() as AddressInfo).port : 0
  const clear = () => {
    fault = undefined
    for (const socket of hanging) socket.destroy()
    hanging.clear()
  }
  return {
    url: `http://127.0.0.1:${port}`,
    writes: () => count.writes,
    faults: {
      set: (kind, skip) => {
        fault = { kind, skip }
        reached = Promise.withResolvers()
      },
      clear,
      reached: () => reached.promise,
      expire: options.expire,
      requests: () => count.requests,
      secrets: options.secrets,
      hasRetryAfter: true,
    },
    stop: async () => {
      clear()
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
