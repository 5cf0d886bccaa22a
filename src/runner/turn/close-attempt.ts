/** Closing an attempt: tools that still run are reported as canceled, a message that was begun is finalized. Pure. */
import { type Draft, ofTurn, send } from "./draft.ts"
import { answerText } from "./text.ts"
import { cancelRunning } from "./tool-calls.ts"
import type { Outcome } from "./turn.ts"
import { sayHeld } from "./send-text.ts"

const reasons = {
  ok: "end_turn",
  error: "error",
  canceled: "canceled",
  superseded: "end_turn",
} as const

export const closeAttempt = (turn: Draft, outcome: Outcome): void => {
  sayHeld(turn)
  const { tools, updates } = cancelRunning(turn.tools)
  turn.tools = tools
  for (const update of updates) {
    send(turn, { type: "message.part.tool-update", ...update, ...ofTurn(turn) })
  }
  if (!turn.created) return
  const finalText = answerText(turn.texts)
  send(turn, {
    type: "message.finalize",
    reason: reasons[outcome.type],
    ...(finalText !== undefined && { finalText }),
    ...(outcome.type === "error" && { error: outcome.error }),
    ...ofTurn(turn),
  })
  turn.created = false
}
