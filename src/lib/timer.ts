/** Named timers of one owner. A name has at most one timer: arming it again cancels the former one. */
import type { Clock } from "./clock.ts"

export interface Timers<Name extends string> {
  /** Calls `run` once after `ms`, instead of what the name was armed with before. */
  readonly arm: (name: Name, ms: number, run: () => void) => void
  /** Does nothing if the timer is not armed. */
  readonly cancel: (name: Name) => void
  /** False once the timer has fired. */
  readonly isArmed: (name: Name) => boolean
  readonly cancelAll: () => void
}

export const createTimers = <Name extends string>(after: Clock["after"]): Timers<Name> => {
  const armed = new Map<Name, () => void>()
  const cancel = (name: Name) => {
    armed.get(name)?.()
    armed.delete(name)
  }
  return {
    arm: (name, ms, run) => {
      cancel(name)
      const fire = () => {
        armed.delete(name)
        run()
      }
      armed.set(name, after(ms, fire))
    },
    cancel,
    isArmed: (name) => armed.has(name),
    cancelAll: () => {
      for (const name of armed.keys()) cancel(name)
    },
  }
}
