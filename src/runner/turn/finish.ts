/** The only terminal transition: every turn ends here, once. Pure. */
import { closeAttempt } from "./close-attempt.ts"
import { promptAddress, type Draft, send, setStatus } from "./draft.ts"
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
    send(turn, { type: "error", error: outcome.error, ...promptAddress(turn) })
  }
  send(turn, { type: "complete", ...promptAddress(turn) })
  // After a superseded turn the prompt that steers it is still running and reports its own status.
  if (outcome.type !== "superseded") setStatus(turn, "idle")
  turn.phase = "ended"
  turn.effects.push({ do: "ended", outcome })
}
