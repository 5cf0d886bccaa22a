/** Writes to a socket in order, queues what the socket does not accept, and reports backpressure. */
import type { Socket } from "bun"

export interface SocketWriter {
  /** False: the rest is queued, and the caller must stop until the queue is drained. */
  readonly write: (bytes: Uint8Array) => boolean
  /** To be called when the socket can accept more; true when the queue is empty. */
  readonly drain: () => boolean
  /** Sends FIN after the queued bytes. */
  readonly finish: () => void
  /** Bytes in the queue. */
  readonly pendingBytes: () => number
}

export const createSocketWriter = (
  socket: Pick<Socket<unknown>, "write" | "shutdown">,
): SocketWriter => {
  let queue: Uint8Array[] = []
  let pendingBytes = 0
  let isFinishing = false

  return {
    write: (bytes) => {
      if (queue.length > 0) {
        queue.push(bytes)
        pendingBytes += bytes.length
        return false
      }
      const written = Math.max(0, socket.write(bytes))
      if (written === bytes.length) return true
      queue = [bytes.subarray(written)]
      pendingBytes = bytes.length - written
      return false
    },
    drain: () => {
      while (queue.length > 0) {
        const first = queue[0]
        if (first === undefined) break
        const written = Math.max(0, socket.write(first))
        pendingBytes -= written
        if (written < first.length) {
          queue[0] = first.subarray(written)
          return false
        }
        queue.shift()
      }
      if (isFinishing) socket.shutdown()
      return true
    },
    finish: () => {
      isFinishing = true
      if (queue.length === 0) socket.shutdown()
    },
    pendingBytes: () => pendingBytes,
  }
}
