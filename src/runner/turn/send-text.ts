/** Sends text in the order of the conversation: while missed text is being read, later text is held back. Pure. */
import { createMessage, type Draft, turnAddress, send, setStatus } from "./draft.ts"
import { childOf, holdBack, releaseHeld, type TextPart, type TextStep } from "./text.ts"

export const sendText = (
  turn: Draft,
  partId: string,
  kind: TextPart["kind"],
  update: TextStep,
): void => {
  turn.texts = update.texts
  if (update.delta === "") return
  if (turn.pendingCatchUps > 0) turn.texts = holdBack(update.texts, partId, update.delta)
  else sendDelta(turn, partId, kind, update.delta)
}

/** Sends the text that was held back, in the order of the conversation. */
export const sendHeldText = (turn: Draft): void => {
  const { texts, held } = releaseHeld(turn.texts)
  turn.texts = texts
  for (const { part, delta } of held) sendDelta(turn, part.id, part.kind, delta)
}

const sendDelta = (turn: Draft, partId: string, kind: TextPart["kind"], delta: string): void => {
  createMessage(turn)
  const childSessionId = childOf(partId)
  // While a sub-agent writes, the turn itself waits for its tool.
  if (childSessionId === undefined && turn.status !== "streaming") setStatus(turn, "streaming")
  const type = kind === "text" ? "message.part.text-delta" : "message.part.reasoning-delta"
  const child = childSessionId === undefined ? {} : { childSessionId }
  send(turn, { type, partId, delta, ...child, ...turnAddress(turn) })
}
