/** An HTTP service on loopback or on a unix socket whose requests fail as the contract suite asks. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { createHash } from "node:crypto"
import type { AddressInfo, Socket } from "node:net"
import type { Duplex } from "node:stream"
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
  /**
   * A WebSocket: the messages that it sends before it closes, or a refusal of the handshake. A function is called with the
   * client's first message.
   */
  readonly connect?: (
    url: URL,
    headers: IncomingMessage["headers"],
  ) => Promise<Messages | Response | ((message: Uint8Array) => Promise<Messages>)>
}

type Messages = readonly Uint8Array[]

const STATUS = { "too-many": 429, error: 500, "not-found": 404 } as const

/** The first message of a WebSocket's client, whose frames are masked. */
const firstMessage = (socket: Duplex, head: Uint8Array): Promise<Uint8Array> =>
  new Promise((resolve, reject) => {
    let seen = Buffer.from(head)
    const read = (bytes: Uint8Array) => {
      seen = Buffer.concat([seen, bytes])
      if (seen.length < 14) return
      const short = seen.readUInt8(1) & 127
      const [length, at] =
        short === 127
          ? [Number(seen.readBigUInt64BE(2)), 10]
          : short === 126
            ? [seen.readUInt16BE(2), 4]
            : [short, 2]
      if (seen.length < at + 4 + length) return
      socket.off("data", read)
      const mask = seen.subarray(at, at + 4)
      const payload = seen.subarray(at + 4, at + 4 + length)
      resolve(payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0)))
    }
    socket.on("data", read)
    socket.on("close", () => reject(new Error("closed")))
    read(Buffer.alloc(0))
  })

const frameOf = (opcode: number, payload: Uint8Array): Uint8Array => {
  const isLong = payload.length > 125
  const head = Buffer.alloc(isLong ? 4 : 2)
  head.writeUInt8(0x80 + opcode, 0)
  head.writeUInt8(isLong ? 126 : payload.length, 1)
  if (isLong) head.writeUInt16BE(payload.length, 2)
  return Buffer.concat([head, payload])
}

/** One of those that the client offers: version 4 if it is among them. */
const protocolOf = (offered: string): string => {
  const names = offered.split(",").map((name) => name.trim())
  return names.find((name) => name.startsWith("v4.")) ?? names[0] ?? ""
}

const handshake = (incoming: IncomingMessage): string => {
  const key = `${incoming.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`
  return [
    "HTTP/1.1 101 Switching Protocols",
    "Upgrade: websocket",
    "Connection: Upgrade",
    `Sec-WebSocket-Accept: ${createHash("sha1").update(key).digest("base64")}`,
    `Sec-WebSocket-Protocol: ${protocolOf(incoming.headers["sec-websocket-protocol"] ?? "")}`,
    "\r\n",
  ].join("\r\n")
}

const refuse = async (socket: Duplex, answer: Response): Promise<void> => {
  const body = await answer.text()
  const lines = [...answer.headers].map(([name, value]) => `${name}: ${value}\r\n`).join("")
  socket.end(
    `HTTP/1.1 ${answer.status} Refused\r\n${lines}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
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
  const hanging = new Set<Socket | Duplex>()

  const faultOfNext = (): FaultKind | undefined => {
    if (!fault) return undefined
    if (fault.skip > 0) {
      fault.skip -= 1
      return undefined
    }
    const { kind } = fault
    if (kind === "not-found") fault = undefined
    return kind
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

  /** A careless service repeats what it has received. */
  const failure = (kind: keyof typeof STATUS, incoming: IncomingMessage, text: string) =>
    Response.json(
      {
        message: `failed: ${JSON.stringify(incoming.headers)} ${text}`,
        // The word of Kubernetes.
        ...(kind === "not-found" && { reason: "NotFound" }),
      },
      { status: STATUS[kind], ...(kind === "too-many" && { headers: { "retry-after": "7" } }) },
    )

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await readBody(incoming)
    count.requests += 1
    const kind = faultOfNext()
    if (kind === undefined) return write(await carryOut(incoming, body), response)
    if (kind === "too-many" || kind === "error" || kind === "not-found") {
      reached.resolve()
      return write(failure(kind, incoming, new TextDecoder().decode(body)), response)
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
  const upgrade = async (
    incoming: IncomingMessage,
    socket: Duplex,
    head: Uint8Array,
  ): Promise<void> => {
    count.requests += 1
    const kind = faultOfNext()
    if (kind === "too-many" || kind === "error" || kind === "not-found") {
      reached.resolve()
      return refuse(socket, failure(kind, incoming, ""))
    }
    const url = new URL(incoming.url ?? "/", "http://service")
    const accepted =
      kind?.endsWith("-before") === true
        ? undefined
        : await options.connect?.(url, incoming.headers)
    const takesInput = typeof accepted === "function"
    if (takesInput) socket.write(handshake(incoming))
    const result = takesInput ? await accepted(await firstMessage(socket, head)) : accepted
    if (kind !== undefined) {
      if (kind.startsWith("cut")) socket.destroy()
      else hanging.add(socket)
      return reached.resolve()
    }
    if (result instanceof Response) return refuse(socket, result)
    if (!takesInput) socket.write(handshake(incoming))
    for (const message of result ?? []) socket.write(frameOf(2, message))
    socket.end(frameOf(8, Uint8Array.of(3, 232)))
  }
  server.on("upgrade", (incoming, socket, head) => {
    upgrade(incoming, socket, head).catch(() => socket.destroy())
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
