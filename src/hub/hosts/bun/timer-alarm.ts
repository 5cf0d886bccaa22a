/** A session's alarm as a timer of this process. */
import type { Clock } from "../../../lib/clock.ts"
import type { Alarm } from "../../session/ports.ts"

const DAY_MS = 86_400_000

/** A timer holds at most 24 days, so a distant time is checked again every day. */
export const timerAlarm = (clock: Clock, ring: () => void): Alarm => {
  let cancel = () => {}
  const set = (at: number | undefined): void => {
    cancel()
    if (at === undefined) return
    const wait = Math.max(0, at - clock.now())
    cancel = clock.after(Math.min(wait, DAY_MS), () => (wait > DAY_MS ? set(at) : ring()))
  }
  return { set }
}
