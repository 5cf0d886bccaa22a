/** Decides whether the fleet's next runner may have a session. Pure. */
import type { SessionActivity } from "./ports.ts"

export interface AdmitRefusal {
  readonly status: 409 | 410
  readonly why: string
}

/** Why the session does not admit a runner of this generation; undefined if it does. */
export const refusalOfRunner = (
  { hasEnded, hasOtherRunner, generation: now }: SessionActivity,
  generation: number,
): AdmitRefusal | undefined => {
  if (hasEnded) return { status: 410, why: "the session has ended" }
  if (hasOtherRunner) return { status: 409, why: "another program started this session's runner" }
  // A late call of an earlier generation must not shut the present runner out.
  return generation <= now ? { status: 409, why: `generation ${now} is in use already` } : undefined
}
