/** Sends bytes over TCP as they are and reads what comes back, for a bounded time. */

export interface Exchange {
  readonly received: string
  readonly closed: boolean
}

/** Resolves when the peer closes, or `waitMs` after the last byte. */
export const sendRaw = (port: number, text: string, waitMs: number): Promise<Exchange> =>
  new Promise((resolve) => {
    let received = ""
    let timer: Timer | undefined
    let done = false
    const finish = (closed: boolean) => {
      if (done) return
      done = true
      clearTimeout(timer)
      resolve({ received, closed })
    }
    Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        open: (socket) => {
          socket.write(Buffer.from(text, "latin1"))
          timer = setTimeout(() => {
            finish(false)
            socket.terminate()
          }, waitMs)
        },
        data: (socket, bytes) => {
          if (received.length < 64 * 1024) received += bytes.toString("latin1")
          clearTimeout(timer)
          timer = setTimeout(() => {
            finish(false)
            socket.terminate()
          }, waitMs)
        },
        close: () => finish(true),
        error: () => finish(true),
      },
    }).catch(() => finish(true))
  })

/** Runs `count` jobs, `width` at a time. */
export const inParallel = async (
  count: number,
  width: number,
  job: (index: number) => Promise<void>,
): Promise<void> => {
  let next = 0
  const worker = async () => {
    while (next < count) {
      const index = next
      next += 1
      await job(index)
    }
  }
  await Promise.all(Array.from({ length: width }, worker))
}
