/** A clock that a test advances by hand; timers run in the order of their due time. */
import type { Clock } from "../../src/lib/clock.ts"

export interface ManualClock extends Clock {
  readonly advance: (ms: number) => void
}

export const createManualClock = (start = 0): ManualClock => {
  let now = start
  let made = 0
  const timers = new Map<number, { readonly due: number; readonly run: () => void }>()
  return {
    now: () => now,
    after: (ms, run) => {
      made += 1
      const id = made
      timers.set(id, { due: now + ms, run })
      return () => timers.delete(id)
    },
    advance: (ms) => {
      const until = now + ms
      for (;;) {
        const next = [...timers]
          .filter(([, { due }]) => due <= until)
          .toSorted(([, a], [, b]) => a.due - b.due)[0]
        if (!next) break
        const [id, timer] = next
        timers.delete(id)
        now = Math.max(now, timer.due)
        timer.run()
      }
      now = until
    },
  }
}
