/** A timer that an abort signal ends. */

/** Rejects with the reason of the signal when the call is aborted. */
export const waitFor = async (ms: number, signal: AbortSignal): Promise<void> => {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onAbort = () => reject(signal.reason)
  const timer = setTimeout(resolve, ms)
  signal.addEventListener("abort", onAbort, { once: true })
  try {
    await promise
  } finally {
    clearTimeout(timer)
    signal.removeEventListener("abort", onAbort)
  }
}
