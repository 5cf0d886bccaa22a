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

/**
 * Says why the machine must have been stored and restored between the two, if it was. A machine that is only frozen
 * keeps both clocks going; it shows by a second look that comes long after it was due.
 */
export const restoredBetween = (before: Moment, now: Moment, dueMs: number): string | undefined => {
  if (before.bootId !== now.bootId) return "the kernel was booted anew"
  const passed = now.steady - before.steady
  const jump = now.wall - before.wall - passed
  if (Math.abs(jump) >= JUMP_MS) return `the clock jumped by ${seconds(jump)} s`
  const late = passed - dueMs
  return late >= JUMP_MS ? `the runner stood still for ${seconds(late)} s` : undefined
}

const seconds = (ms: number): number => Math.round(ms / 1000)
