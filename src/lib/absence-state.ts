/**
 * How long something has been away, as one who looks now and then counts it. The time during which nobody could look does not
 * count: the machine was suspended, or the process that looks was frozen together with what it looks for, which then needs a moment
 * to come back. Pure. The script of the watchdog (watchdog-script.ts) follows the same rule.
 */

export interface AbsencePolicy {
  readonly limitMs: number
  /** The pause between two looks. */
  readonly everyMs: number
}

export interface Absence {
  readonly awayMs: number
  readonly lookedAt: number
}

/** A look that comes so much later than it was due comes after a suspension. */
export const JUMP_MS = 30_000
/** What is left of the limit at least after a suspension. */
export const GRACE_MS = 60_000

export const present = (now: number): Absence => ({ awayMs: 0, lookedAt: now })

/** After a look that has not found it. */
export const stillAway = (
  { awayMs, lookedAt }: Absence,
  now: number,
  { limitMs, everyMs }: AbsencePolicy,
): Absence => {
  const passed = now - lookedAt
  const isJump = passed < 0 || passed > everyMs + JUMP_MS
  const counted = isJump
    ? Math.min(awayMs, Math.max(0, limitMs - GRACE_MS))
    : Math.min(awayMs + passed, limitMs)
  return { awayMs: counted, lookedAt: now }
}

export const isOver = ({ awayMs }: Absence, { limitMs }: AbsencePolicy): boolean =>
  awayMs >= limitMs
