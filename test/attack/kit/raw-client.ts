/** Sends bytes over TCP as they are and reads what comes back, for a bounded time. */

export interface Exchange {
  readonly received: string
  readonly closed: boolean
}

/**
 * Resolves when the peer closes, or `waitMs` after the last byte and not before `later` is over. A request that is not complete
 * has no answer, and a connection stays open after one: the attacker goes on.
 */
export const sendRaw = async (
  port: number,
  text: string,
  waitMs: number,
  later: () => Promise<void> = async () => {},
): Promise<Exchange> => {
  let received = ""
  let last = performance.now()
  const closed = Promise.withResolvers<true>()
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      open: (opened) => void opened.write(Buffer.from(text, "latin1")),
      data: (_, bytes) => {
        last = performance.now()
        if (received.length < 64 * 1024) received += bytes.toString("latin1")
      },
      close: () => closed.resolve(true),
      error: () => closed.resolve(true),
    },
  }).catch(() => undefined)
  if (!socket) return { received, closed: true }
  const silence = async (): Promise<false> => {
    await later()
    for (;;) {
      const left = last + waitMs - performance.now()
      if (left <= 0) return false
      // Sleep: the attacker waits for a short time.
      await Bun.sleep(left)
    }
  }
  const isClosed = await Promise.race([closed.promise, silence()])
  socket.terminate()
  return { received, closed: isClosed }
}

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
