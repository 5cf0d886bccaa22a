/** A session's alarm as a timer of this process. */
import type { Clock } from "../../../lib/clock.ts"
import { createTimers } from "../../../lib/timer.ts"
import type { Alarm } from "../../session/ports.ts"

const DAY_MS = 86_400_000

/** A timer holds at most 24 days, so a distant time is checked again every day. */
export const timerAlarm = (clock: Clock, ring: () => void): Alarm => {
  const timers = createTimers<"alarm">(clock.after)
  const set = (at: number | undefined): void => {
    if (at === undefined) return timers.cancel("alarm")
    const wait = Math.max(0, at - clock.now())
    timers.arm("alarm", Math.min(wait, DAY_MS), () => (wait > DAY_MS ? set(at) : ring()))
  }
  return { set }
}
