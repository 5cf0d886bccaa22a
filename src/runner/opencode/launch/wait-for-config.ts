/**
 * Delays the first start of OpenCode until the session agent sends a configuration, for at most `waitMs` after the
 * runner started or the link opened. Without one OpenCode starts with the saved configuration.
 */
import type { Clock } from "../../../lib/clock.ts"

export interface FirstConfig {
  readonly begin: () => void
  readonly linkOpen: () => void
  /** Cancels the wait. */
  readonly cancel: () => void
}

export const waitForConfig = (clock: Clock, waitMs: number, onTimeout: () => void): FirstConfig => {
  let finished = false
  let cancelTimer = () => {}
  const restartTimer = () => {
    cancelTimer()
    if (finished) return
    cancelTimer = clock.after(waitMs, () => {
      finished = true
      onTimeout()
    })
  }
  return {
    begin: restartTimer,
    linkOpen: restartTimer,
    cancel: () => {
      finished = true
      cancelTimer()
    },
  }
}
