/** Waits that end with the call they belong to. */

/** Rejects when the agent stops the call: nothing goes on behind its back. */
export const waitFor = async (ms: number, signal: AbortSignal): Promise<void> => {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const stopped = () => reject(signal.reason)
  const timer = setTimeout(resolve, ms)
  signal.addEventListener("abort", stopped, { once: true })
  try {
    await promise
  } finally {
    clearTimeout(timer)
    signal.removeEventListener("abort", stopped)
  }
}
