/** The one terminal transition: every way out of a turn leads here, and is taken once. Pure. */
import { closeAttempt } from "./close-attempt.ts"
import { address, type Draft, send, setStatus } from "./draft.ts"
import { rejectPermissions } from "./permissions.ts"
import { rejectQuestions } from "./questions.ts"
import type { Outcome } from "./turn.ts"

export const finish = (turn: Draft, outcome: Outcome): void => {
  if (turn.phase === "ended") return
  rejectQuestions(turn)
  rejectPermissions(turn)
  const { created } = turn
  closeAttempt(turn, outcome)
  if (!created && outcome.type === "error") {
    send(turn, { type: "error", error: outcome.error, ...address(turn) })
  }
  send(turn, { type: "complete", ...address(turn) })
  // A prompt that steers is at work in the same conversation: it has its own status.
  if (outcome.type !== "superseded") setStatus(turn, "idle")
  turn.phase = "ended"
  turn.effects.push({ do: "ended", outcome })
}
