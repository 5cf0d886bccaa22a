import { untilState } from "./until-true.ts"

const LOOKS = 20

/**
 * Waits until a value does not change any more: it is the same in twenty looks in a row. A machine that stands still can end this wait
 * too early. So it only prepares a state that makes a test harder, and no test fails without it.
 */
export const untilStill = async <Value>(
  look: () => Value | Promise<Value>,
  what: string,
): Promise<Value> => {
  let last: Value | undefined
  let same = 0
  return untilState(
    async () => {
      const now = await look()
      same = Bun.deepEquals(now, last) ? same + 1 : 0
      last = now
      return now
    },
    () => same >= LOOKS,
    what,
  )
}
