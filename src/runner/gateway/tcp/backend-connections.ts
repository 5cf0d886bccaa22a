/** Connections to backends on this machine: made, kept for the next request, and given up when they are stale. */
import type { Socket } from "bun"
import type { Clock } from "../../../lib/clock.ts"
import { createOutlet, type Outlet } from "./socket-writer.ts"

/** What is told of a connection to whoever uses it now. */
export interface Listener {
  readonly data: (bytes: Buffer) => void
  /** The other end has said all it will say. */
  readonly end: () => void
  /** The connection is gone. */
  readonly gone: () => void
  /** All that waited has been written. */
  readonly drained: () => void
}

export interface Upstream {
  readonly port: number
  readonly outlet: Outlet
  readonly listen: (listener: Listener) => void
  readonly pause: () => void
  readonly resume: () => void
  /** At once, whatever is on its way. */
  readonly close: () => void
  /** After what has been written. */
  readonly end: () => void
  readonly isOpen: () => boolean
}

export interface Dialer {
  /** A connection that was used before and is still there. */
  readonly reuse: (port: number) => Upstream | undefined
  /** A new one; `undefined` when nothing listens there. */
  readonly connect: (port: number) => Promise<Upstream | undefined>
  /** Keeps it for the next request. */
  readonly keep: (upstream: Upstream) => void
  /** Is something listening there? */
  readonly isListening: (port: number) => Promise<boolean>
  readonly closeIdle: () => void
}

const CONNECT_MS = 5000
const MOST_IDLE = 64
/** Development servers listen on one or the other, as their runtime prefers. */
const HOSTS = ["127.0.0.1", "::1"]

interface Line {
  listener: Listener | undefined
  outlet: Outlet | undefined
}

const handlers = {
  data: (socket: Socket<Line>, bytes: Buffer) => {
    if (socket.data.listener) socket.data.listener.data(bytes)
    else socket.terminate()
  },
  end: (socket: Socket<Line>) => {
    if (socket.data.listener) socket.data.listener.end()
    else socket.end()
  },
  close: (socket: Socket<Line>) => socket.data.listener?.gone(),
  error: (socket: Socket<Line>) => socket.terminate(),
  drain: (socket: Socket<Line>) => {
    if (socket.data.outlet?.drain() === true) socket.data.listener?.drained()
  },
}

export const createDialer = (clock: Clock): Dialer => {
  const idle = new Map<number, Upstream[]>()

  const connectTo = async (hostname: string, port: number): Promise<Upstream | undefined> => {
    const line: Line = { listener: undefined, outlet: undefined }
    const connecting = Bun.connect<Line>({
      hostname,
      port,
      data: line,
      allowHalfOpen: true,
      socket: handlers,
    })
    const expired = Promise.withResolvers<undefined>()
    const cancel = clock.after(CONNECT_MS, () => expired.resolve(undefined))
    try {
      const socket = await Promise.race([connecting, expired.promise])
      if (socket === undefined) {
        void connecting.then((late) => late.terminate()).catch(() => {})
        return undefined
      }
      // A port of the range that connections are made from can be connected to itself.
      if (socket.localPort === port) {
        socket.terminate()
        return undefined
      }
      socket.setNoDelay(true)
      return upstreamOf(socket, line, port)
    } catch {
      return undefined
    } finally {
      cancel()
    }
  }

  const connect = async (port: number): Promise<Upstream | undefined> => {
    for (const host of HOSTS) {
      const upstream = await connectTo(host, port)
      if (upstream) return upstream
    }
    return undefined
  }

  const forget = (upstream: Upstream) => {
    const waiting = idle.get(upstream.port)?.filter((other) => other !== upstream) ?? []
    if (waiting.length === 0) idle.delete(upstream.port)
    else idle.set(upstream.port, waiting)
  }

  return {
    reuse: (port) => {
      const waiting = idle.get(port)
      for (;;) {
        const upstream = waiting?.pop()
        if (upstream === undefined || upstream.isOpen()) return upstream
      }
    },
    connect,
    keep: (upstream) => {
      const waiting = idle.get(upstream.port) ?? []
      if (!upstream.isOpen() || waiting.length >= MOST_IDLE) return upstream.close()
      const drop = () => {
        upstream.close()
        forget(upstream)
      }
      upstream.listen({ data: drop, end: drop, gone: () => forget(upstream), drained: () => {} })
      upstream.resume()
      idle.set(upstream.port, waiting)
      waiting.push(upstream)
    },
    isListening: async (port) => {
      const upstream = await connect(port)
      upstream?.close()
      return upstream !== undefined
    },
    closeIdle: () => {
      for (const waiting of idle.values()) for (const upstream of waiting) upstream.close()
      idle.clear()
    },
  }
}

const upstreamOf = (socket: Socket<Line>, line: Line, port: number): Upstream => {
  const outlet = createOutlet(socket)
  line.outlet = outlet
  return {
    port,
    outlet,
    listen: (listener) => {
      line.listener = listener
    },
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close: () => {
      line.listener = undefined
      socket.terminate()
    },
    end: () => {
      line.listener = undefined
      socket.end()
    },
    isOpen: () => socket.readyState === 1,
  }
}
