/** Whether this machine is still the one it was a moment ago. Pure. */

export interface Moment {
  /** The kernel's own name of this boot. */
  readonly bootId: string
  /** Milliseconds of the wall clock. */
  readonly wall: number
  /** Milliseconds of a clock that nobody sets. */
  readonly steady: number
}

/** Clocks are put right by seconds; a machine that was stored and woken finds minutes missing. */
const JUMP_MS = 30_000

/** Says why the machine must have been stored and restored between the two, if it was. */
export const restoredBetween = (before: Moment, now: Moment): string | undefined => {
  if (before.bootId !== now.bootId) return "the kernel was booted anew"
  const jump = now.wall - before.wall - (now.steady - before.steady)
  if (Math.abs(jump) < JUMP_MS) return undefined
  return `the clock jumped by ${Math.round(jump / 1000)} s`
}
