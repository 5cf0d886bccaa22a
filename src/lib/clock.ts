/** Time as a dependency: what waits or measures takes a Clock, so that a test can hold time in its hand. */

export interface Clock {
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Calls `run` once after `ms`; the returned function takes it back. */
  readonly after: (ms: number, run: () => void) => () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

/** Resolves after `ms`, or at once when the signal is aborted: a wait never outlives what it waits for. */
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

/** True when it settled within `ms`; a failure of it is a failure here. */
export const within = async (
  clock: Clock,
  ms: number,
  work: Promise<unknown>,
): Promise<boolean> => {
  const over = Promise.withResolvers<boolean>()
  const cancel = clock.after(ms, () => over.resolve(false))
  const settled = async () => {
    await work
    return true
  }
  try {
    return await Promise.race([settled(), over.promise])
  } finally {
    cancel()
  }
}
