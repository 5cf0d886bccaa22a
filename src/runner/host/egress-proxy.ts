/**
 * The HTTP proxy that the agent's programs use under an egress policy: CONNECT and plain requests to allowed hosts, and a
 * refusal with the reason for all others. It listens on loopback only.
 */
import { connect, createServer, type Server, type Socket } from "node:net"
import { outsideAddress } from "../../lib/outside-address.ts"
import { type EgressHost, isAllowed, type ProxyRequest, readProxyRequest } from "./egress-rules.ts"

export interface EgressProxyOptions {
  readonly port: number
  readonly hosts: readonly EgressHost[]
  /** The machine's own proxy, through which allowed requests go. */
  readonly via?: URL | undefined
  readonly onRefused: (host: string, port: number) => void
  /** The address of an allowed host; false for one of this machine. Each connection resolves its name once. */
  readonly addressOf?: (url: URL) => Promise<{ readonly address: string } | false>
}

export interface EgressProxy {
  readonly port: number
  readonly stop: () => Promise<void>
}

const MAX_HEAD_BYTES = 32 * 1024
const HEAD_MS = 10_000
const CONNECT_MS = 15_000
const MOST_CONNECTIONS = 512
const END_OF_HEAD = "\r\n\r\n"

export const startEgressProxy = async (options: EgressProxyOptions): Promise<EgressProxy> => {
  const open = new Set<Socket>()
  const server = createServer((client) => {
    open.add(client)
    client.on("close", () => open.delete(client))
    client.on("error", () => client.destroy())
    readHead(client, (head, rest) => void serve(client, head, rest, options))
  })
  server.maxConnections = MOST_CONNECTIONS
  await listen(server, options.port)
  const address = server.address()
  return {
    port: typeof address === "object" && address ? address.port : options.port,
    stop: async () => {
      for (const socket of open) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const listen = (server: Server, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", reject)
    server.listen(port, "127.0.0.1", resolve)
  })

const readHead = (client: Socket, take: (head: string, rest: Buffer) => void): void => {
  let seen = Buffer.alloc(0)
  client.setTimeout(HEAD_MS, () => client.destroy())
  const read = (bytes: Buffer) => {
    seen = Buffer.concat([seen, bytes])
    const end = seen.indexOf(END_OF_HEAD)
    if (end === -1) {
      if (seen.length > MAX_HEAD_BYTES) refuse(client, 431, "the request head is too long")
      return
    }
    client.off("data", read)
    client.pause()
    client.setTimeout(0)
    take(seen.subarray(0, end).toString("latin1"), seen.subarray(end + END_OF_HEAD.length))
  }
  client.on("data", read)
}

const serve = async (
  client: Socket,
  head: string,
  rest: Buffer,
  { hosts, via, onRefused, addressOf = outsideAddress }: EgressProxyOptions,
): Promise<void> => {
  const request = readProxyRequest(head)
  if (!request) return refuse(client, 400, "this is not a request to a proxy")
  const { host, port } = request
  if (!isAllowed(hosts, host, port)) {
    onRefused(host, port)
    return refuse(
      client,
      403,
      `the network policy of this sandbox does not allow ${host}:${port}; an operator can add the host to SANDBOX_EGRESS_HOSTS`,
    )
  }
  if (via)
    return join(client, connect(Number(via.port || 80), via.hostname), viaHead(request, via), rest)
  const found = await addressOf(new URL(`http://${host}:${port}/`))
  if (found === false) return refuse(client, 502, `${host} has no address outside this machine`)
  const server = connect(port, found.address)
  join(client, server, request.head, rest, request.method === "CONNECT")
}

/** The other proxy answers a CONNECT itself. */
const viaHead = ({ proxyHead }: ProxyRequest, { username, password }: URL): string => {
  if (username === "") return `${proxyHead}\r\n`
  const login = btoa(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`)
  return `${proxyHead}Proxy-Authorization: Basic ${login}\r\n\r\n`
}

const join = (
  client: Socket,
  server: Socket,
  head: string,
  rest: Buffer,
  announces = false,
): void => {
  server.setTimeout(CONNECT_MS, () => server.destroy(new Error("timeout")))
  client.once("close", () => server.destroy())
  server.once("connect", () => {
    server.setTimeout(0)
    if (announces) client.write(`HTTP/1.1 200 Connection established${END_OF_HEAD}`)
    if (head !== "") server.write(head, "latin1")
    if (rest.length > 0) server.write(rest)
    client.pipe(server)
    server.pipe(client)
    client.resume()
  })
  server.once("error", () => refuse(client, 502, "the host cannot be reached"))
  server.once("close", () => client.end())
}

const refuse = (client: Socket, status: number, why: string): void => {
  if (client.destroyed || client.writableEnded) return
  // After bytes of the server this would be part of its response.
  if (client.bytesWritten > 0) return void client.destroy()
  const body = `sandpiper: ${why}\n`
  client.end(
    `HTTP/1.1 ${status} ${status === 403 ? "Forbidden" : "Refused"}\r\ncontent-type: text/plain\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close${END_OF_HEAD}${body}`,
  )
}
