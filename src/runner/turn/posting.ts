/** Giving the prompt to OpenCode, and seeing that it was really taken: a 204 alone does not say so. Pure. */
import { type Draft, setStatus, timer } from "./draft.ts"
import { finish } from "./finish.ts"
import { armBudgets } from "./timers.ts"
import { LOOK_MS } from "./timeouts.ts"

/** A prompt posted this often without an answer is not posted again. */
const MAX_POSTS = 3

export const start = (turn: Draft, at: number): void => {
  turn.startedAt = at
  turn.progressAt = at
  setStatus(turn, "thinking")
  post(turn)
  if (!turn.settings.joins) armBudgets(turn)
  timer(turn, "total", turn.settings.budgets.total)
}

/** The body is the same each time, ids and all: posting it twice is posting it once. */
export const post = (turn: Draft): void => {
  turn.posts += 1
  turn.effects.push({ do: "post", model: turn.settings.models[turn.attempt] })
  timer(turn, "look", LOOK_MS)
}

/** Without a definite no OpenCode may have taken the prompt all the same; the look that is due finds out. */
export const onPostFailed = (turn: Draft, error: string, definite: boolean): void => {
  if (definite && turn.messages.length === 0) finish(turn, { type: "error", error })
}

export const lookAgain = (turn: Draft): void => {
  if (turn.messages.length === 0) timer(turn, "look", LOOK_MS)
}

/** OpenCode took the prompt and does nothing with it: the same message again is harmless and wakes it. */
export const postAgain = (turn: Draft): void => {
  if (turn.posts < MAX_POSTS) return post(turn)
  finish(turn, { type: "error", error: "OpenCode took the prompt but did not answer it" })
}
