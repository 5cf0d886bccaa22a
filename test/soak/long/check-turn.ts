/** Compares what a client sees of an ended turn with what the model said. Pure. */
import type { MessageWithParts } from "../../../src/wire/clients/conversation.ts"
import type { PlannedTurn } from "./turns.ts"

export type Verdict = { readonly is: "ok" | "failed by a fault" } | { readonly mismatch: string }

/** A turn may fail when a process was killed under it, but what it shows must then be the start of the model's words. */
export const checkTurn = (
  turn: PlannedTurn,
  promptId: string,
  messages: readonly MessageWithParts[],
): Verdict => {
  const own = messages.filter((one) => one.promptId === promptId && one.role !== "user")
  const last = own.at(-1)
  if (!last) return { mismatch: "no message" }
  if (own.some(({ status }) => status === "streaming")) return { mismatch: "still streaming" }
  const shown = last.parts
    .flatMap(({ kind, text = "" }) => (kind === "text" ? [text] : []))
    .join("")
  if (last.status === "done") {
    if (turn.mustFail) return { mismatch: `done, though the model refused: ${shown}` }
    return shown === turn.words ? { is: "ok" } : { mismatch: describe(turn.words, shown) }
  }
  if (turn.mustFail) return { is: "ok" }
  if ((last.error ?? "") === "") return { mismatch: `${last.status} without a reason` }
  return turn.words.startsWith(shown)
    ? { is: "failed by a fault" }
    : { mismatch: `${last.status}: ${describe(turn.words, shown)}` }
}

const describe = (expected: string, shown: string): string => {
  const at = expected.split("").findIndex((character, index) => shown[index] !== character)
  return `${shown.length} of ${expected.length} characters, different from ${at}: ${JSON.stringify(shown.slice(Math.max(0, at - 20), at + 40))}`
}
