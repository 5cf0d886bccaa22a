/** Time as a dependency: code that waits or measures takes a Clock, so that tests can control time. */

export interface Clock {
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Calls `run` once after `ms`; the returned function cancels it. */
  readonly after: (ms: number, run: () => void) => () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

/** Resolves after `ms`, or when the signal is aborted. */
export const sleep = (clock: Clock, ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const finish = () => {
      cancel()
      signal?.removeEventListener("abort", finish)
      resolve()
    }
    const cancel = clock.after(ms, finish)
    signal?.addEventListener("abort", finish)
  })

/** Resolves to true if `work` resolves within `ms`, otherwise to false. Rejects if `work` rejects in time. */
export const within = async (
  clock: Clock,
  ms: number,
  work: Promise<unknown>,
): Promise<boolean> => {
  const late = Promise.withResolvers<boolean>()
  const cancel = clock.after(ms, () => late.resolve(false))
  const settled = async () => {
    await work
    return true
  }
  try {
    return await Promise.race([settled(), late.promise])
  } finally {
    cancel()
  }
}
