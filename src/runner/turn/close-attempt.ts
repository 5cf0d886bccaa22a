/** Closes an attempt: reports tools that still run as canceled, and finalizes the message if one was created. Pure. */
import { type Draft, turnAddress, send } from "./draft.ts"
import { answerText } from "./text.ts"
import { cancelRunning } from "./tool-calls.ts"
import type { Outcome } from "./turn.ts"
import { sendOutputs } from "./tool-output.ts"
import { sendHeldText } from "./send-text.ts"

const reasons = {
  ok: "end_turn",
  error: "error",
  canceled: "canceled",
  superseded: "end_turn",
} as const

export const closeAttempt = (turn: Draft, outcome: Outcome): void => {
  sendHeldText(turn)
  sendOutputs(turn)
  turn.outputs = []
  const { tools, updates } = cancelRunning(turn.tools)
  turn.tools = tools
  for (const { files: _files, ...update } of updates) {
    send(turn, { type: "message.part.tool-update", ...update, ...turnAddress(turn) })
  }
  if (!turn.created) return
  const finalText = answerText(turn.texts)
  send(turn, {
    type: "message.finalize",
    reason: reasons[outcome.type],
    ...(finalText !== undefined && { finalText }),
    ...(outcome.type === "error" && { error: outcome.error }),
    ...turnAddress(turn),
  })
  turn.created = false
}
