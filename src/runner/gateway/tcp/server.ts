/** The sandbox's door: listens, counts its connections, and closes them in order. */
import type { Socket } from "bun"
import type { Clock } from "../../../lib/clock.ts"
import { type Connection, createConnection } from "./connection.ts"
import type { ProxyRequest } from "./proxy-request.ts"
import { renderAnswer } from "../http/response.ts"

export interface ServerOptions {
  readonly host: string
  readonly port: number
  readonly clock: Clock
  readonly serve: (exchange: ProxyRequest) => void
  readonly over: (exchange: ProxyRequest) => void
  readonly refused: (status: number) => void
  /** Called every second, for whatever else must be swept. */
  readonly tick: () => void
  readonly mostSockets?: number
}

export interface Server {
  readonly port: number
  readonly sockets: () => number
  /** Ends at once the connections that serve what is meant, and tells how many those were. */
  readonly drop: (isMeant: (exchange: ProxyRequest) => boolean) => number
  /** Takes no new work, gives what runs a while, and ends. */
  readonly stop: () => Promise<void>
}

const MOST_SOCKETS = 4096
const SWEEP_MS = 1000
const GRACE_MS = 5000
const KEEP_ALIVE_MS = 60_000
const FULL = renderAnswer({ status: 503, headers: { "retry-after": "2" } }, false, false)

interface Line {
  connection: Connection | undefined
}

export const startServer = (options: ServerOptions): Server => {
  const { clock, host, port, mostSockets = MOST_SOCKETS } = options
  const connections = new Map<Socket<Line>, Connection>()
  let stopping = false

  const listener = listen({
    hostname: host,
    port,
    allowHalfOpen: true,
    data: { connection: undefined },
    socket: {
      open: (socket) => {
        if (connections.size >= mostSockets && !makeRoom()) {
          socket.write(FULL)
          return void socket.end()
        }
        socket.setNoDelay(true)
        socket.setKeepAlive(true, KEEP_ALIVE_MS)
        const connection = createConnection({
          socket,
          now: clock.now,
          begin: options.serve,
          over: options.over,
          refused: options.refused,
        })
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
        socket.data.connection?.gone()
      },
      error: (socket) => socket.terminate(),
      drain: (socket) => socket.data.connection?.drain(),
    },
  })

  /** The connection that has been open longest without asking for anything gives way. */
  const makeRoom = (): boolean => {
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
    options.tick()
    cancelSweep = clock.after(SWEEP_MS, sweep)
  }
  cancelSweep = clock.after(SWEEP_MS, sweep)

  const isBusy = () => [...connections.values()].some((connection) => connection.phase() === "busy")

  return {
    port: listener.port,
    sockets: () => connections.size,
    drop: (isMeant) =>
      [...connections.values()].filter((connection) => connection.drop(isMeant)).length,
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

const listen = (options: Bun.TCPSocketListenOptions<Line>) => {
  try {
    return Bun.listen<Line>(options)
  } catch (error) {
    const where = `${options.hostname}:${options.port}`
    throw new Error(`the gateway cannot listen on ${where} (GATEWAY_PORT, GATEWAY_HOST)`, {
      cause: error,
    })
  }
}
