/** Stopping a turn, on request or because a limit was reached: asked for here, over when OpenCode has really stopped. Pure. */
import { type Draft, timer } from "./draft.ts"
import { RECHECK_MS, STOPPING_MS } from "./timeouts.ts"
import type { Outcome, Stopped } from "./turn.ts"

export const stop = (turn: Draft, by: Stopped["by"], reason: string): void => {
  // What a person wants wins over what the machine was about to do; nothing wins over a person.
  if (turn.stopped?.by === "user" || (turn.stopped && by !== "user")) return
  const isFirst = turn.stopped === undefined
  // It has stopped by itself, as far as we know. An abort of an idle session would hit the next prompt instead.
  const isOver = turn.phase === "ending"
  if (isOver && by !== "user") return
  turn.stopped = { by, reason }
  if (isOver || !isFirst) return
  turn.effects.push({ do: "abort" })
  timer(turn, "recheck", RECHECK_MS)
  timer(turn, "stopping", STOPPING_MS)
}

/** The end of a turn that somebody stopped, however it came about. */
export const canceled = ({ stopped }: Draft): Outcome | undefined =>
  stopped?.by === "user" ? { type: "canceled", reason: stopped.reason } : undefined
