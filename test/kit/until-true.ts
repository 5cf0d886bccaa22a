/**
 * The limit of a wait in a test. It is far above what any wait needs: a machine whose disk or processors are busy with other
 * programs can stand still for half a minute.
 */
export const WAIT_MS = 100_000

type Found<Value> = Exclude<Value, undefined | null | false | "" | 0>

/** Looks until there is something, more and more slowly, and returns it. A timeout throws an error that names `what` was expected. */
export const untilFound = async <Value>(
  look: () => Value | Promise<Value>,
  what: string | (() => string),
  ms = WAIT_MS,
): Promise<Found<Value>> => {
  const deadline = performance.now() + ms
  for (let pause = 2; ; pause = Math.min(pause * 1.5, 25)) {
    const found = await look()
    if (found) return found as Found<Value>
    if (performance.now() > deadline)
      throw new Error(`no ${typeof what === "string" ? what : what()} within ${ms} ms`)
    await Bun.sleep(pause)
  }
}

/** Waits for a condition that may need a request. */
export const untilTrue = async (
  holds: () => boolean | Promise<boolean>,
  what: string | (() => string),
  ms = WAIT_MS,
): Promise<void> => {
  await untilFound(holds, what, ms)
}
