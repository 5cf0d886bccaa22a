/** When OpenCode is really done with a prompt, what the stream missed of it, and how that is to be called. Pure. */
import { readChildren } from "./subagents.ts"
import { type Draft, read, timer } from "./draft.ts"
import { canSwitch, isWorthAnother, listAttempts, switchModel } from "./failover.ts"
import { finish } from "./finish.ts"
import { onMessage } from "./messages.ts"
import { onStoredParts } from "./parts.ts"
import { onPermission } from "./permissions.ts"
import { postAgain } from "./posting.ts"
import { onQuestion } from "./questions.ts"
import { canceled } from "./stopping.ts"
import { hasWords, inOrder } from "./text.ts"
import type { Outcome, ReadReason, SessionSnapshot } from "./turn.ts"
import { LOOK_MS, RECHECK_MS } from "./timeouts.ts"
import { sayHeld } from "./send-text.ts"

/** A prompt just taken begins seconds later at times: a stop is believed after this many looks that found nothing. */
const IDLE_READS = 2

/** Over is the first idle at which no message is open; an earlier idle is only a reason to look again. */
export const onIdle = (turn: Draft): void => {
  const newest = turn.messages.at(-1)
  const settled = newest ? !newest.open : turn.error !== undefined
  if (!settled) return timer(turn, "recheck", RECHECK_MS)
  turn.phase = "ending"
  read(turn, "end")
}

/** What the stream missed is said first; then OpenCode's own word on whether it still works decides. */
export const onRead = (
  turn: Draft,
  why: ReadReason,
  snapshot: SessionSnapshot,
  at: number,
): void => {
  turn.missing = isCatchingUp(why) ? Math.max(0, turn.missing - 1) : 0
  takeIn(turn, snapshot, at)
  if (turn.missing === 0) sayHeld(turn)
  // Another prompt's answer may have ended this turn while its words were read.
  if (turn.phase === "ended") return
  if (snapshot.status.type !== "idle") return stillBusy(turn, why)
  const newest = turn.messages.at(-1)
  if (!newest && turn.error === undefined && !turn.stopped) {
    return why === "gap" ? timer(turn, "look", LOOK_MS) : postAgain(turn)
  }
  if (!newest && turn.stopped && turn.idleReads < IDLE_READS) {
    turn.idleReads += 1
    turn.effects.push({ do: "abort" })
    return timer(turn, "recheck", RECHECK_MS)
  }
  // Right after a gap a message may be a moment from its completion; only a second look may end it open.
  if (isCatchingUp(why) && newest?.open) {
    return timer(turn, "recheck", RECHECK_MS)
  }
  conclude(turn, why)
}

/** What the stream missed is read, and not only whether it is over. */
const isCatchingUp = (why: ReadReason): boolean => why === "gap" || why === "resume"

const takeIn = (turn: Draft, snapshot: SessionSnapshot, at: number): void => {
  const { messages, children, asked } = snapshot
  for (const { message } of messages) onMessage(turn, message, at)
  if (turn.phase === "ended") return
  for (const { parts } of messages) onStoredParts(turn, parts, at)
  turn.texts = inOrder(
    turn.texts,
    messages.flatMap(({ parts }) => parts.map(({ id }) => id)),
  )
  readChildren(turn, children)
  // A request of an aborted turn stays on OpenCode's list for ever: only one at work can have asked.
  if (!asked || snapshot.status.type === "idle") return
  for (const { requestId, questions } of asked.questions) onQuestion(turn, requestId, questions)
  for (const permission of asked.permissions) onPermission(turn, permission)
}

/** OpenCode does not answer now. Its death would be told; until then, ask again. */
export const onReadFailed = (turn: Draft, why: ReadReason): void =>
  timer(turn, why === "look" ? "look" : "recheck", RECHECK_MS)

const stillBusy = (turn: Draft, why: ReadReason): void => {
  if (turn.phase === "ending") turn.phase = "streaming"
  if (turn.stopped) turn.effects.push({ do: "abort" })
  if (turn.messages.length === 0) return timer(turn, "look", LOOK_MS)
  // Otherwise the idle to come brings us back; looking on and on would read the whole session each time.
  if (why === "end" || turn.stopped) timer(turn, "recheck", RECHECK_MS)
}

/** OpenCode is done with this attempt: the prompt goes to another model, or the turn ends. */
const conclude = (turn: Draft, why: ReadReason): void => {
  const outcome = outcomeOf(turn, why)
  if (outcome.type === "error" && isWorthAnother(turn) && canSwitch(turn)) {
    return switchModel(turn, outcome.error)
  }
  finish(turn, outcome.type === "error" ? listAttempts(turn, outcome.error) : outcome)
}

const outcomeOf = (turn: Draft, why: ReadReason): Outcome => {
  const { stopped } = turn
  const byUser = canceled(turn)
  if (byUser) return byUser
  if (stopped) return { type: "error", error: stopped.reason }
  const newest = turn.messages.at(-1)
  const isAborted = newest?.error?.name === "MessageAbortedError"
  // A runner that comes back may have had to end the OpenCode it left behind: nobody asked for that.
  if (isAborted && why !== "resume") return { type: "canceled", reason: "stopped in OpenCode" }
  if (newest?.error && !isAborted) return { type: "error", error: newest.error.message }
  // Between two steps of the model nothing is open: only a restart can have left it there.
  const cutShort = why === "resume" && newest?.finish === "tool-calls"
  if (newest?.open || cutShort || isAborted)
    return { type: "error", error: "OpenCode was stopped in mid-turn" }
  if (!newest && turn.error) return { type: "error", error: turn.error.message }
  if (hasWords(turn.texts) || turn.tools.length > 0) return { type: "ok" }
  return { type: "error", error: "the model returned an empty answer" }
}
