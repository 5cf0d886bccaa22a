/** Posts the prompt to OpenCode and checks that it was accepted: a 204 response alone does not prove it. Pure. */
import { type Draft, setStatus, setTimer } from "./draft.ts"
import { finish } from "./finish.ts"
import { STOPPED_IN_OPENCODE } from "./stopping.ts"
import { armBudgets } from "./timers.ts"
import { POST_CHECK_MS } from "./timeouts.ts"

/** After this many posts without an answer the turn fails. */
const MAX_POSTS = 3

export const start = (turn: Draft, at: number): void => {
  turn.startedAt = at
  turn.progressAt = at
  setStatus(turn, "thinking")
  post(turn)
  if (!turn.settings.joins) armBudgets(turn)
  setTimer(turn, "total", turn.settings.budgets.total)
}

/** Every post has the same body and ids, so posting twice is harmless. */
export const post = (turn: Draft): void => {
  turn.postCount += 1
  turn.effects.push({ do: "post", model: turn.settings.models[turn.attempt] })
  setTimer(turn, "post-check", POST_CHECK_MS)
}

/** Unless the refusal is definite, OpenCode may have accepted the prompt; the next post check finds out. */
export const onPostFailed = (turn: Draft, error: string, definite: boolean): void => {
  if (definite && turn.messages.length === 0) finish(turn, { type: "error", error })
}

export const checkPostLater = (turn: Draft): void => {
  if (turn.messages.length === 0) setTimer(turn, "post-check", POST_CHECK_MS)
}

/** OpenCode accepted the prompt but is idle: posting the same message again is harmless and makes it start. */
export const postAgain = (turn: Draft): void => {
  if (turn.settings.observed) return finish(turn, { type: "canceled", reason: STOPPED_IN_OPENCODE })
  if (turn.postCount < MAX_POSTS) return post(turn)
  finish(turn, { type: "error", error: "OpenCode accepted the prompt but did not start it" })
}
