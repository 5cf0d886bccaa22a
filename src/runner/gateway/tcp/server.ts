/** The gateway's TCP server: listens, limits the number of connections, and shuts them down in order. */
import type { Socket } from "bun"
import type { Clock } from "../../../lib/clock.ts"
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
}

export interface Server {
  readonly port: number
  readonly sockets: () => number
  /** Ends the connections whose exchange matches, at once; returns their number. */
  readonly dropConnections: (matches: (exchange: HttpExchange) => boolean) => number
  /** Stops accepting connections, waits up to 5 s for running requests, and closes everything. */
  readonly stop: () => Promise<void>
}

const MOST_SOCKETS = 4096
const SWEEP_MS = 1000
const GRACE_MS = 5000
const KEEP_ALIVE_MS = 60_000
const FULL = renderResponse({ status: 503, headers: { "retry-after": "2" } }, false, false)

interface SocketData {
  connection: Connection | undefined
}

export const startServer = (options: ServerOptions): Server => {
  const { clock, host, port, mostSockets = MOST_SOCKETS } = options
  const connections = new Map<Socket<SocketData>, Connection>()
  let stopping = false

  const listener = listen({
    hostname: host,
    port,
    allowHalfOpen: true,
    data: { connection: undefined },
    socket: {
      open: (socket) => {
        if (connections.size >= mostSockets && !closeIdleConnection()) {
          socket.write(FULL)
          return void socket.end()
        }
        socket.setNoDelay(true)
        socket.setKeepAlive(true, KEEP_ALIVE_MS)
        const connection = createConnection({ ...options, socket, now: clock.now })
        socket.data = { connection }
        connections.set(socket, connection)
        if (stopping) connection.retire()
      },
      data: (socket, bytes) => socket.data.connection?.data(bytes),
      end: (socket) => {
        if (socket.data.connection) socket.data.connection.end()
        else socket.end()
      },
      close: (socket) => {
        connections.delete(socket)
        socket.data.connection?.closed()
      },
      error: (socket) => socket.terminate(),
      drain: (socket) => socket.data.connection?.drain(),
    },
  })

  /** Makes room for a new connection by closing the oldest one that is between requests. */
  const closeIdleConnection = (): boolean => {
    for (const [socket, connection] of connections) {
      if (connection.phase() !== "head") continue
      connections.delete(socket)
      connection.close()
      return true
    }
    return false
  }

  let cancelSweep = () => {}
  const sweep = () => {
    const at = clock.now()
    for (const connection of connections.values()) connection.sweep(at)
    options.onTick()
    cancelSweep = clock.after(SWEEP_MS, sweep)
  }
  cancelSweep = clock.after(SWEEP_MS, sweep)

  const isBusy = () =>
    [...connections.values()].some((connection) => connection.phase() === "request")

  return {
    port: listener.port,
    sockets: () => connections.size,
    dropConnections: (matches) =>
      [...connections.values()].filter((connection) => connection.drop(matches)).length,
    stop: async () => {
      stopping = true
      listener.stop(false)
      for (const connection of connections.values()) connection.retire()
      const deadline = clock.now() + GRACE_MS
      while (isBusy() && clock.now() < deadline) {
        await new Promise<void>((resolve) => void clock.after(20, resolve))
      }
      cancelSweep()
      for (const connection of connections.values()) connection.close()
      listener.stop(true)
    },
  }
}

const listen = (options: Bun.TCPSocketListenOptions<SocketData>) => {
  try {
    return Bun.listen<SocketData>(options)
  } catch (error) {
    const where = `${options.hostname}:${options.port}`
    throw new Error(`the gateway cannot listen on ${where} (GATEWAY_PORT, GATEWAY_HOST)`, {
      cause: error,
    })
  }
}
