/**
 * Waits of tests. A wait ends when its condition holds, never after a time: the limit is far above what any wait needs, because a
 * machine whose disk or processors are busy with other programs can stand still for half a minute.
 */
export const WAIT_MS = 100_000

type Found<Value> = Exclude<Value, undefined | null | false | "" | 0>
/** What is expected, for the message of a timeout. A function can add the last state. */
type What = string | (() => string)

const textOf = (value: unknown): string => {
  const text = typeof value === "string" ? value : Bun.inspect(value, { depth: 6 })
  return text.length > 4000 ? `${text.slice(0, 2000)} ... ${text.slice(-2000)}` : text
}

/** Looks more and more slowly until `holds`, and returns the last state. A timeout throws an error with that state. */
export const untilState = async <State>(
  look: () => State | Promise<State>,
  holds: (state: State) => boolean,
  what: What,
  ms = WAIT_MS,
): Promise<State> => {
  const deadline = performance.now() + ms
  for (let pause = 2; ; pause = Math.min(pause * 1.5, 25)) {
    const state = await look()
    if (holds(state)) return state
    if (performance.now() > deadline) {
      const name = typeof what === "string" ? what : what()
      const last = typeof state === "boolean" || state === undefined ? "" : `: ${textOf(state)}`
      throw new Error(`no ${name} within ${ms} ms${last}`)
    }
    await Bun.sleep(pause)
  }
}

/** Looks until a value is equal to the expected one. A timeout throws an error with the last value. */
export const untilEqual = async <Value>(
  look: () => Value | Promise<Value>,
  expected: Value,
  what: What,
  ms = WAIT_MS,
): Promise<void> => {
  await untilState(look, (value) => Bun.deepEquals(value, expected), what, ms)
}

/** Looks until there is something, and returns it. */
export const untilFound = async <Value>(
  look: () => Value | Promise<Value>,
  what: What,
  ms = WAIT_MS,
): Promise<Found<Value>> => (await untilState(look, Boolean, what, ms)) as Found<Value>

/** Waits for a condition that may need a request. */
export const untilTrue = async (
  holds: () => boolean | Promise<boolean>,
  what: What,
  ms = WAIT_MS,
): Promise<void> => {
  await untilState(holds, Boolean, what, ms)
}
