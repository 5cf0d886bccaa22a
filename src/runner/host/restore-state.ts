/** Detects from clocks and boot id that the machine was stored and restored. Pure. */

export interface Moment {
  /** The kernel's id of this boot. */
  readonly bootId: string
  /** Milliseconds of the wall clock. */
  readonly wall: number
  /** Milliseconds of a monotonic clock. */
  readonly steady: number
}

/** Clock corrections are a matter of seconds; a restore skips at least half a minute. */
const JUMP_MS = 30_000

/**
 * The reason why the machine must have been restored between the two moments, or undefined. If the machine was only
 * frozen, both clocks continue and the second moment comes long after it was due.
 */
export const restoredBetween = (before: Moment, now: Moment, dueMs: number): string | undefined => {
  if (before.bootId !== now.bootId) return "the kernel was rebooted"
  const passed = now.steady - before.steady
  const jump = now.wall - before.wall - passed
  if (Math.abs(jump) >= JUMP_MS) return `the clock jumped by ${seconds(jump)} s`
  const late = passed - dueMs
  return late >= JUMP_MS ? `the runner was frozen for ${seconds(late)} s` : undefined
}

const seconds = (ms: number): number => Math.round(ms / 1000)
