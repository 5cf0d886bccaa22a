/** A TCP proxy that a test can cut, freeze or take down. */
import type { Socket } from "bun"

export interface TcpProxy {
  readonly port: number
  /** Resets every connection immediately, also in the middle of a message. */
  readonly reset: () => void
  /** Drops all further bytes without closing: both ends still consider themselves connected. */
  readonly freeze: () => void
  /** While down, new connections are reset as soon as they open. */
  readonly setDown: (down: boolean) => void
  readonly connections: () => number
  /** What frozen connections have dropped, of both sides, as text. */
  readonly lost: () => string
  readonly stop: () => Promise<void>
}

/** One side of a connection; `backlog` holds bytes that could not be written yet, in order. */
interface End {
  peer: Socket<End> | undefined
  backlog: Uint8Array[]
  frozen: boolean
}

export const startTcpProxy = async (targetPort: number): Promise<TcpProxy> => {
  const open = new Set<Socket<End>>()
  let down = false
  let connections = 0
  let lost = ""

  const flush = (socket: Socket<End>) => {
    const { data } = socket
    while (data.backlog.length > 0) {
      const [chunk] = data.backlog
      if (!chunk) break
      const written = socket.write(chunk)
      if (written < chunk.length) {
        data.backlog[0] = chunk.subarray(Math.max(0, written))
        return
      }
      data.backlog.shift()
    }
  }
  const handlers = {
    data: (socket: Socket<End>, bytes: Uint8Array) => {
      const { peer, frozen } = socket.data
      if (frozen) return void (lost += Buffer.from(bytes).toString("latin1"))
      if (!peer) return void socket.data.backlog.push(bytes.slice())
      peer.data.backlog.push(bytes.slice())
      flush(peer)
    },
    drain: flush,
    close: (socket: Socket<End>) => {
      open.delete(socket)
      if (!socket.data.frozen) socket.data.peer?.end()
    },
    error: () => {},
  }

  const server = Bun.listen<End>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      ...handlers,
      open: async (near) => {
        near.data = { peer: undefined, backlog: [], frozen: false }
        if (down) return near.terminate()
        connections += 1
        open.add(near)
        const far = await Bun.connect<End>({
          hostname: "127.0.0.1",
          port: targetPort,
          data: { peer: near, backlog: near.data.backlog, frozen: false },
          socket: handlers,
        }).catch(() => undefined)
        // The target is not there, as between two starts of it.
        if (!far) return near.terminate()
        near.data.backlog = []
        near.data.peer = far
        open.add(far)
        flush(far)
      },
    },
  })

  const reset = () => {
    for (const socket of open) socket.terminate()
  }
  return {
    port: server.port,
    reset,
    freeze: () => {
      for (const socket of open) socket.data.frozen = true
    },
    setDown: (value) => {
      down = value
    },
    connections: () => connections,
    lost: () => lost,
    stop: async () => {
      reset()
      server.stop(true)
    },
  }
}
