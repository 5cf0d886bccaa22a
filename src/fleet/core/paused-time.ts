/** How long a sandbox stays paused before it is saved and ended. Pure. */
import type { Capabilities } from "../providers/contract.ts"

export interface PausedLimits {
  /** Where a paused sandbox occupies a machine. Undefined: for any time. */
  readonly pausedMs: number | undefined
  /** Where the provider stores a paused sandbox with its memory. Undefined: for any time. */
  readonly storedMs: number | undefined
}

/** A provider that deletes paused sandboxes gets half of its time: a save that fails can be repeated. */
export const pausedTime = (
  can: Pick<Capabilities, "snapshot" | "pausedLifeMs">,
  { pausedMs, storedMs }: PausedLimits,
): number | undefined => {
  const times = [can.snapshot === "pause" ? storedMs : pausedMs, (can.pausedLifeMs ?? 0) / 2]
  const limits = times.filter((ms) => ms !== undefined && ms > 0) as readonly number[]
  return limits.length === 0 ? undefined : Math.min(...limits)
}
