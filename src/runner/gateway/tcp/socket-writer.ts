/** Writes to a socket in order, and says when the other end does not keep up. */
import type { Socket } from "bun"

export interface Outlet {
  /** False: the rest waits here, and the source has to wait for `drained`. */
  readonly write: (bytes: Uint8Array) => boolean
  /** To be called when the socket can take more; true when nothing waits any more. */
  readonly drain: () => boolean
  /** Sends the end after all that waits. */
  readonly finish: () => void
  readonly waiting: () => number
}

export const createOutlet = (socket: Pick<Socket<unknown>, "write" | "shutdown">): Outlet => {
  let queue: Uint8Array[] = []
  let waiting = 0
  let finishing = false

  const flush = () => {
    while (queue.length > 0) {
      const first = queue[0]
      if (first === undefined) break
      const written = Math.max(0, socket.write(first))
      waiting -= written
      if (written < first.length) {
        queue[0] = first.subarray(written)
        return false
      }
      queue.shift()
    }
    if (finishing) socket.shutdown()
    return true
  }

  return {
    write: (bytes) => {
      if (queue.length > 0) {
        queue.push(bytes)
        waiting += bytes.length
        return false
      }
      const written = Math.max(0, socket.write(bytes))
      if (written === bytes.length) return true
      queue = [bytes.subarray(written)]
      waiting = bytes.length - written
      return false
    },
    drain: flush,
    finish: () => {
      finishing = true
      if (queue.length === 0) socket.shutdown()
    },
    waiting: () => waiting,
  }
}
