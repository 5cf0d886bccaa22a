/** A steering prompt joins a running conversation; the turn before it ends where the new answer begins. Pure. */
import type { Draft } from "./draft.ts"
import { finish } from "./finish.ts"

export const onSteered = (turn: Draft, userMessageId: string): void => {
  turn.steeredBy ??= userMessageId
}

/** OpenCode answers the steering prompt now: everything from here on belongs to that prompt's turn. */
export const onSteeringPromptAnswered = (turn: Draft): void => finish(turn, { type: "superseded" })
