/** The gateway's TCP server: listens, limits the number of connections, and shuts them down in order. */
import type { Socket } from "bun"
import type { Clock } from "../../../lib/clock.ts"
import { listenOnLoopback } from "../../../lib/loopback-listeners.ts"
import { peerOf } from "../../../lib/network-peer.ts"
import { type Connection, createConnection } from "./connection.ts"
import type { HttpExchange } from "./http-exchange.ts"
import { renderResponse } from "../http/response.ts"

export interface ServerOptions {
  readonly host: string
  readonly port: number
  readonly clock: Clock
  readonly onRequest: (exchange: HttpExchange) => void
  readonly onRequestOver: (exchange: HttpExchange) => void
  /** A client sent bytes that are not a valid request, and was sent this status. */
  readonly onRefused: (status: number) => void
  /** Called every second. */
  readonly onTick: () => void
  readonly mostSockets?: number
  /** Requests that are still served when all ordinary room is taken. */
  readonly isEssential: (target: string) => boolean
}

export interface Server {
  readonly port: number
  readonly sockets: () => number
  /** The requests that are being served, and the WebSockets. */
  readonly exchanges: () => readonly HttpExchange[]
  /** Ends the connections whose exchange matches, at once; returns their number. */
  readonly dropConnections: (matches: (exchange: HttpExchange) => boolean) => number
  /** Stops accepting connections, waits up to 5 s for running requests, and closes everything. */
  readonly stop: () => Promise<void>
}

const MOST_SOCKETS = 4096
/** Room that is kept for essential requests, as a fraction of all connections. */
const RESERVED = 1 / 16
/** The part of all connections that one address may have. Behind a proxy, all people have its address. */
const PER_PEER = 3 / 4
/** How long a refused client has to read its response. */
const REFUSED_MS = 1000
const SWEEP_MS = 1000
const GRACE_MS = 5000
const KEEP_ALIVE_MS = 60_000
const FULL = renderResponse({ status: 503, headers: { "retry-after": "2" } }, false, false)

interface SocketData {
  connection: Connection | undefined
  peer: string
}

export const startServer = (options: ServerOptions): Server => {
  const { clock, host, port, mostSockets = MOST_SOCKETS } = options
  const mostOrdinary = mostSockets - Math.floor(mostSockets * RESERVED)
  const mostPerPeer = Math.ceil(mostSockets * PER_PEER)
  const connections = new Map<Socket<SocketData>, Connection>()
  const perPeer = new Map<string, number>()
  /** Clients that were refused, and when their sockets are closed if they do not close them. */
  const refused = new Map<Socket<SocketData>, number>()
  let stopping = false

  const listeners = listen(host, port, {
    allowHalfOpen: true,
    data: { connection: undefined, peer: "" },
    socket: {
      open: (socket) => {
        const peer = peerOf(socket.remoteAddress)
        const room = findRoom(peer)
        if (room === "none") {
          socket.write(FULL)
          refused.set(socket, clock.now() + REFUSED_MS)
          return void socket.end()
        }
        socket.setNoDelay(true)
        socket.setKeepAlive(true, KEEP_ALIVE_MS)
        const onRequest = room === "reserved" ? onlyEssential : options.onRequest
        const connection = createConnection({ ...options, onRequest, socket, now: clock.now })
        socket.data = { connection, peer }
        connections.set(socket, connection)
        perPeer.set(peer, (perPeer.get(peer) ?? 0) + 1)
        if (stopping) connection.retire()
      },
      data: (socket, bytes) => socket.data.connection?.data(bytes),
      end: (socket) => {
        if (socket.data.connection) socket.data.connection.end()
        else socket.end()
      },
      close: (socket) => {
        refused.delete(socket)
        remove(socket)
        socket.data.connection?.closed()
      },
      error: (socket) => socket.terminate(),
      drain: (socket) => socket.data.connection?.drain(),
    },
  })

  const remove = (socket: Socket<SocketData>) => {
    if (!connections.delete(socket)) return
    const { peer } = socket.data
    const left = (perPeer.get(peer) ?? 1) - 1
    if (left === 0) perPeer.delete(peer)
    else perPeer.set(peer, left)
  }

  const findRoom = (peer: string): "ordinary" | "reserved" | "none" => {
    if ((perPeer.get(peer) ?? 0) >= mostPerPeer) return evictOne(peer) ? "ordinary" : "none"
    if (connections.size < mostOrdinary || evictOne()) return "ordinary"
    return connections.size < mostSockets ? "reserved" : "none"
  }

  /** Gives up the oldest connection of the lowest rank, of this peer or of any. */
  const evictOne = (peer?: string): boolean => {
    const at = clock.now()
    let lowest = Number.POSITIVE_INFINITY
    let victim: Socket<SocketData> | undefined
    for (const [socket, connection] of connections) {
      if (peer !== undefined && socket.data.peer !== peer) continue
      const rank = connection.evictionRank(at)
      if (rank === undefined || rank >= lowest) continue
      lowest = rank
      victim = socket
      if (rank === 0) break
    }
    if (victim === undefined) return false
    remove(victim)
    victim.data.connection?.evict()
    return true
  }

  const onlyEssential = (exchange: HttpExchange) => {
    if (options.isEssential(exchange.head.target)) return options.onRequest(exchange)
    exchange.respond({ status: 503, headers: { "retry-after": "2" } })
  }

  let cancelSweep = () => {}
  const sweep = () => {
    const at = clock.now()
    for (const connection of connections.values()) connection.sweep(at)
    for (const [socket, until] of refused) if (at > until) socket.terminate()
    options.onTick()
    cancelSweep = clock.after(SWEEP_MS, sweep)
  }
  cancelSweep = clock.after(SWEEP_MS, sweep)

  const isBusy = () =>
    [...connections.values()].some((connection) => connection.phase() === "request")

  return {
    port: listeners[0].port,
    sockets: () => connections.size,
    exchanges: () => [...connections.values()].flatMap((connection) => connection.exchange() ?? []),
    dropConnections: (matches) =>
      [...connections.values()].filter((connection) => connection.drop(matches)).length,
    stop: async () => {
      stopping = true
      for (const listener of listeners) listener.stop(false)
      for (const connection of connections.values()) connection.retire()
      const deadline = clock.now() + GRACE_MS
      while (isBusy() && clock.now() < deadline) {
        await new Promise<void>((resolve) => void clock.after(20, resolve))
      }
      cancelSweep()
      for (const connection of connections.values()) connection.close()
      for (const listener of listeners) listener.stop(true)
    },
  }
}

const listen = (
  host: string,
  port: number,
  options: Omit<Bun.TCPSocketListenOptions<SocketData>, "hostname" | "port">,
) => {
  try {
    return listenOnLoopback(host, port, (hostname, chosen) =>
      Bun.listen<SocketData>({ ...options, hostname, port: chosen }),
    )
  } catch (error) {
    throw new Error(`the gateway cannot listen on ${host}:${port} (GATEWAY_PORT, GATEWAY_HOST)`, {
      cause: error,
    })
  }
}
