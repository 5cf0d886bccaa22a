/** A prompt that steers joins a conversation at work: the turn before it ends where the new one's answer begins. Pure. */
import type { Draft } from "./draft.ts"
import { finish } from "./finish.ts"

export const onOvertaken = (turn: Draft, userMessageId: string): void => {
  turn.overtakenBy ??= userMessageId
}

/** OpenCode took the new prompt up: everything from here on answers that one. */
export const onAnsweredByOther = (turn: Draft): void => finish(turn, { type: "superseded" })
