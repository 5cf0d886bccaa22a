/** Words on their way out, in the order they were said: none leave while what was said before them is still read. Pure. */
import { create, type Draft, ofTurn, send, setStatus } from "./draft.ts"
import { holdBack, release, type TextPart, type TextStep } from "./text.ts"

export const say = (turn: Draft, partId: string, kind: TextPart["kind"], said: TextStep): void => {
  turn.texts = said.texts
  if (said.delta === "") return
  if (turn.missing > 0) turn.texts = holdBack(said.texts, partId, said.delta)
  else utter(turn, partId, kind, said.delta)
}

/** What was held back goes out, in the conversation's order. */
export const sayHeld = (turn: Draft): void => {
  const { texts, held } = release(turn.texts)
  turn.texts = texts
  for (const { part, words } of held) utter(turn, part.id, part.kind, words)
}

const utter = (turn: Draft, partId: string, kind: TextPart["kind"], delta: string): void => {
  create(turn)
  if (turn.status !== "streaming") setStatus(turn, "streaming")
  const type = kind === "text" ? "message.part.text-delta" : "message.part.reasoning-delta"
  send(turn, { type, partId, delta, ...ofTurn(turn) })
}
