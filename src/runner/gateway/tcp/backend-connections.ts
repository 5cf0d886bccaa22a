/** Connections to backends on this machine: opens them, keeps idle ones for the next request, and drops stale ones. */
import type { Socket } from "bun"
import type { Clock } from "../../../lib/clock.ts"
import { createSocketWriter, type SocketWriter } from "./socket-writer.ts"

/** Called for the events of a connection by its current user. */
export interface UpstreamListener {
  readonly data: (bytes: Buffer) => void
  /** The backend has closed its sending side. */
  readonly end: () => void
  readonly closed: () => void
  /** Everything that was written has been accepted by the socket. */
  readonly drained: () => void
}

export interface Upstream {
  readonly port: number
  readonly writer: SocketWriter
  readonly listen: (listener: UpstreamListener) => void
  readonly pause: () => void
  readonly resume: () => void
  /** At once, without sending queued bytes. */
  readonly close: () => void
  /** After sending what was written. */
  readonly end: () => void
  readonly isOpen: () => boolean
}

export interface Dialer {
  /** An idle connection of an earlier request, if there is one; with `mostMs` only one that was just used. */
  readonly reuse: (port: number, mostMs?: number) => Upstream | undefined
  /**
   * A new connection; `undefined` when nothing listens on the port. The idle ones are closed: a backend that serves one
   * connection at a time would never answer the new one.
   */
  readonly connect: (port: number) => Promise<Upstream | undefined>
  /** Keeps a connection for the next request, unless another one waits for the first byte of its backend. */
  readonly keep: (upstream: Upstream) => void
  readonly isListening: (port: number) => Promise<boolean>
  readonly closeIdle: () => void
}

const CONNECT_MS = 5000
const MOST_IDLE = 64
/** Development servers listen on IPv4 or IPv6, depending on their runtime. */
const HOSTS = ["127.0.0.1", "::1"]

interface SocketData {
  listener: UpstreamListener | undefined
  writer: SocketWriter | undefined
  /** The backend has sent its first byte, or the connection has ended. */
  served: () => void
}

const handlers = {
  data: (socket: Socket<SocketData>, bytes: Buffer) => {
    socket.data.served()
    if (socket.data.listener) socket.data.listener.data(bytes)
    else socket.terminate()
  },
  end: (socket: Socket<SocketData>) => {
    if (socket.data.listener) socket.data.listener.end()
    else socket.end()
  },
  close: (socket: Socket<SocketData>) => {
    socket.data.served()
    socket.data.listener?.closed()
  },
  error: (socket: Socket<SocketData>) => socket.terminate(),
  drain: (socket: Socket<SocketData>) => {
    if (socket.data.writer?.drain() === true) socket.data.listener?.drained()
  },
}

/** A backend with an entry in `sockets` is reached at that Unix socket only; its port is just its name. */
export const createDialer = (
  clock: Clock,
  sockets: ReadonlyMap<number, string> = new Map(),
): Dialer => {
  const idle = new Map<number, Upstream[]>()
  const keptAt = new WeakMap<Upstream, number>()
  /** Open connections on which the backend has not sent a byte. */
  const unserved = new Map<number, Set<Upstream>>()

  const serves = (upstream: Upstream) => {
    const waiting = unserved.get(upstream.port)
    if (waiting?.delete(upstream) === true && waiting.size === 0) unserved.delete(upstream.port)
  }

  const connectTo = async (
    place: { readonly hostname: string } | { readonly unix: string },
    port: number,
  ): Promise<Upstream | undefined> => {
    const data: SocketData = { listener: undefined, writer: undefined, served: () => {} }
    const options = { data, allowHalfOpen: true, socket: handlers }
    const connecting =
      "unix" in place
        ? Bun.connect<SocketData>({ unix: place.unix, ...options })
        : Bun.connect<SocketData>({ hostname: place.hostname, port, ...options })
    const expired = Promise.withResolvers<undefined>()
    const cancel = clock.after(CONNECT_MS, () => expired.resolve(undefined))
    try {
      const socket = await Promise.race([connecting, expired.promise])
      if (socket === undefined) {
        void connecting.then((late) => late.terminate()).catch(() => {})
        return undefined
      }
      // The kernel may choose `port` as the local port: TCP then connects the socket to itself.
      if (socket.localPort === port) {
        socket.terminate()
        return undefined
      }
      socket.setNoDelay(true)
      const upstream = upstreamOf(socket, data, port)
      data.served = () => serves(upstream)
      if (upstream.isOpen()) unserved.set(port, (unserved.get(port) ?? new Set()).add(upstream))
      return upstream
    } catch {
      return undefined
    } finally {
      cancel()
    }
  }

  const connect = async (port: number): Promise<Upstream | undefined> => {
    const unix = sockets.get(port)
    if (unix !== undefined) return connectTo({ unix }, port)
    for (const hostname of HOSTS) {
      const upstream = await connectTo({ hostname }, port)
      if (upstream) return upstream
    }
    return undefined
  }

  const forget = (upstream: Upstream) => {
    const waiting = idle.get(upstream.port)?.filter((other) => other !== upstream) ?? []
    if (waiting.length === 0) idle.delete(upstream.port)
    else idle.set(upstream.port, waiting)
  }

  const closeIdle = (port: number) => {
    for (const upstream of idle.get(port) ?? []) upstream.close()
    idle.delete(port)
  }

  return {
    reuse: (port, mostMs = Number.POSITIVE_INFINITY) => {
      const waiting = idle.get(port)
      for (;;) {
        const upstream = waiting?.at(-1)
        if (upstream === undefined) return undefined
        // The last one was used last: the others are older.
        if (clock.now() - (keptAt.get(upstream) ?? 0) > mostMs) return undefined
        waiting?.pop()
        if (upstream.isOpen()) return upstream
      }
    },
    connect: (port) => {
      closeIdle(port)
      return connect(port)
    },
    keep: (upstream) => {
      serves(upstream)
      const waiting = idle.get(upstream.port) ?? []
      const isFull = waiting.length >= MOST_IDLE || unserved.has(upstream.port)
      if (!upstream.isOpen() || isFull) return upstream.close()
      const drop = () => {
        upstream.close()
        forget(upstream)
      }
      upstream.listen({ data: drop, end: drop, closed: () => forget(upstream), drained: () => {} })
      upstream.resume()
      idle.set(upstream.port, waiting)
      keptAt.set(upstream, clock.now())
      waiting.push(upstream)
    },
    isListening: async (port) => {
      const upstream = await connect(port)
      upstream?.close()
      return upstream !== undefined
    },
    closeIdle: () => {
      for (const port of idle.keys()) closeIdle(port)
    },
  }
}

const upstreamOf = (socket: Socket<SocketData>, data: SocketData, port: number): Upstream => {
  const writer = createSocketWriter(socket)
  data.writer = writer
  return {
    port,
    writer,
    listen: (listener) => {
      data.listener = listener
    },
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close: () => {
      data.listener = undefined
      socket.terminate()
    },
    end: () => {
      data.listener = undefined
      socket.end()
    },
    isOpen: () => socket.readyState === 1,
  }
}
