/**
 * OpenCode is started once: with the session agent's first configuration if that comes within `waitMs` of the
 * link's opening, else with what is known already.
 */
import type { Clock } from "../../../lib/clock.ts"

export interface FirstConfig {
  readonly begin: () => void
  readonly linkOpen: () => void
  /** A configuration came: there is nothing to wait for any more. */
  readonly arrived: () => void
}

export const waitForConfig = (clock: Clock, waitMs: number, go: () => void): FirstConfig => {
  let over = false
  let cancel = () => {}
  const arm = () => {
    cancel()
    if (over) return
    cancel = clock.after(waitMs, () => {
      over = true
      go()
    })
  }
  return {
    begin: arm,
    linkOpen: arm,
    arrived: () => {
      over = true
      cancel()
    },
  }
}
