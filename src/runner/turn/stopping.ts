/** Stops a turn on request or at a limit. The turn ends only when OpenCode has really stopped. Pure. */
import { type Draft, setTimer } from "./draft.ts"
import { RECHECK_MS, STOPPING_MS } from "./timeouts.ts"
import type { Outcome, Stopped } from "./turn.ts"

/** The reason of a turn that another client of OpenCode has stopped. */
export const STOPPED_IN_OPENCODE = "stopped in OpenCode"

export const stop = (turn: Draft, by: Stopped["by"], reason: string): void => {
  // A stop by the user replaces any other reason, and no other reason replaces it.
  if (turn.stopped?.by === "user" || (turn.stopped && by !== "user")) return
  const isFirst = turn.stopped === undefined
  // OpenCode is idle already, as far as is known. Aborting an idle session would hit the next prompt instead.
  const isOver = turn.phase === "ending"
  if (isOver && by !== "user") return
  turn.stopped = { by, reason }
  if (isOver || !isFirst) return
  turn.effects.push({ do: "abort" })
  setTimer(turn, "recheck", RECHECK_MS)
  setTimer(turn, "stopping", STOPPING_MS)
}

/** The outcome of a turn that the user stopped. */
export const canceled = ({ stopped }: Draft): Outcome | undefined =>
  stopped?.by === "user" ? { type: "canceled", reason: stopped.reason } : undefined
