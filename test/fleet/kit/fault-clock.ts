/**
 * A clock whose timers a test lets expire all at once. Waits of at most a second are those between two polls: they do not
 * wait. Time itself is the system's.
 */
import { type Clock, systemClock } from "../../../src/lib/clock.ts"

export interface FaultClock extends Clock {
  /** All timers expire now, and new ones at once, until `reset`. */
  readonly expire: () => void
  readonly reset: () => void
}

const POLL_MS = 1000

export const createFaultClock = (): FaultClock => {
  const timers = new Set<() => void>()
  const state = { isExpired: false }
  return {
    now: systemClock.now,
    after: (ms, run) => {
      const fire = () => {
        if (!timers.delete(fire)) return
        cancel()
        run()
      }
      timers.add(fire)
      const cancel = systemClock.after(state.isExpired || ms <= POLL_MS ? 0 : ms, fire)
      return () => {
        timers.delete(fire)
        cancel()
      }
    },
    expire: () => {
      state.isExpired = true
      for (const fire of timers) fire()
    },
    reset: () => {
      state.isExpired = false
    },
  }
}
