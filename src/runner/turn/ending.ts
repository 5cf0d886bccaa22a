/** Decides when OpenCode has finished a prompt, applies what the event stream missed, and determines the outcome. Pure. */
import { describeBrokerError } from "./broker-error.ts"
import { applyChildMessages } from "./subagents.ts"
import { type Draft, requestRead, setTimer } from "./draft.ts"
import { canSwitch, mayOtherModelSucceed, listAttempts, switchModel } from "./failover.ts"
import { finish } from "./finish.ts"
import { onMessage } from "./messages.ts"
import { onStoredParts } from "./parts.ts"
import { onPermission } from "./permissions.ts"
import { postAgain } from "./posting.ts"
import { onQuestion } from "./questions.ts"
import { canceled, STOPPED_IN_OPENCODE } from "./stopping.ts"
import { hasText, sortParts } from "./text.ts"
import type { Outcome, ReadReason, SessionSnapshot } from "./turn.ts"
import { MAX_RECHECK_MS, POST_CHECK_MS, RECHECK_MS } from "./timeouts.ts"
import { sendHeldText } from "./send-text.ts"

/** OpenCode may start a prompt seconds after it accepted it, so a stopped turn ends only after this many idle reads. */
const MAX_IDLE_READS = 2
/** A message that is still open after this many idle reads, about half a minute, stays open: OpenCode has lost it. */
const MAX_OPEN_READS = 4

/** The turn is over at the first idle without an open message; after any other idle the session is read again later. */
export const onIdle = (turn: Draft): void => {
  turn.busyReads = 0
  const newest = turn.messages.at(-1)
  const settled = newest ? !newest.open : turn.error !== undefined
  if (!settled) return setTimer(turn, "recheck", RECHECK_MS)
  turn.phase = "ending"
  requestRead(turn, "end")
}

/** Sends what the stream missed, then decides by OpenCode's own status whether the turn is over. */
export const onRead = (turn: Draft, why: ReadReason, read: SessionSnapshot, at: number): void => {
  const snapshot = beforeNextPrompt(turn, read)
  turn.pendingCatchUps = readsMissedEvents(why) ? Math.max(0, turn.pendingCatchUps - 1) : 0
  applySnapshot(turn, snapshot, at)
  if (turn.pendingCatchUps === 0) sendHeldText(turn)
  // Applying the snapshot ends this turn if it contains the answer to a prompt that steers it.
  if (turn.phase === "ended") return
  if (snapshot.status.type !== "idle") return onStillBusy(turn)
  const newest = turn.messages.at(-1)
  if (!newest && turn.error === undefined && !turn.stopped) {
    return why === "stream-gap" ? setTimer(turn, "post-check", POST_CHECK_MS) : postAgain(turn)
  }
  if (!newest && turn.stopped && turn.idleReads < MAX_IDLE_READS) {
    turn.idleReads += 1
    turn.effects.push({ do: "abort" })
    return setTimer(turn, "recheck", RECHECK_MS)
  }
  // Right after a gap an open message may be about to complete: only a second read may end the turn with it open.
  if (readsMissedEvents(why) && newest?.open) {
    return setTimer(turn, "recheck", RECHECK_MS)
  }
  // After an error or an abort OpenCode is idle before it completes the message, and a busy machine delays that.
  // A restart of OpenCode leaves the message open for good.
  if (newest?.open && turn.resumed !== true && turn.openReads < MAX_OPEN_READS) {
    turn.openReads += 1
    return setTimer(turn, "recheck", Math.min(MAX_RECHECK_MS, RECHECK_MS * 2 ** turn.openReads))
  }
  conclude(turn, why)
}

/** What the snapshot holds of a turn that has ended, while OpenCode may work on a later prompt. */
const beforeNextPrompt = (turn: Draft, snapshot: SessionSnapshot): SessionSnapshot => {
  const { endsBefore } = turn.settings
  if (endsBefore === undefined) return snapshot
  const end = snapshot.messages.findIndex(({ message }) => message.id === endsBefore)
  const messages = end === -1 ? snapshot.messages : snapshot.messages.slice(0, end)
  return { ...snapshot, messages, status: { type: "idle" } }
}

const readsMissedEvents = (why: ReadReason): boolean => why === "stream-gap" || why === "resume"

const applySnapshot = (turn: Draft, snapshot: SessionSnapshot, at: number): void => {
  const { messages, children, openRequests } = snapshot
  for (const { message } of messages) onMessage(turn, message, at)
  if (turn.phase === "ended") return
  for (const { parts } of messages) onStoredParts(turn, parts, at)
  turn.texts = sortParts(
    turn.texts,
    messages.flatMap(({ parts }) => parts.map(({ id }) => id)),
  )
  applyChildMessages(turn, children)
  // OpenCode never removes the requests of an aborted turn from its list, so they count only while it is busy.
  if (!openRequests || snapshot.status.type === "idle") return
  for (const request of openRequests.questions) onQuestion(turn, request)
  for (const permission of openRequests.permissions) onPermission(turn, permission)
}

/** OpenCode gave no response: reads again later. If it has died, an `agent-lost` event follows. */
export const onReadFailed = (turn: Draft, why: ReadReason): void =>
  setTimer(turn, why === "post-check" ? "post-check" : "recheck", RECHECK_MS)

const onStillBusy = (turn: Draft): void => {
  if (turn.phase === "ending") turn.phase = "streaming"
  if (turn.stopped) turn.effects.push({ do: "abort" })
  if (turn.messages.length === 0) return setTimer(turn, "post-check", POST_CHECK_MS)
  if (turn.stopped) return setTimer(turn, "recheck", RECHECK_MS)
  // The idle event of this turn may have come already: without another look the turn would wait for its budget.
  const mayBeOver = turn.busyReads !== undefined || turn.messages.at(-1)?.open === false
  // In other cases the next idle event causes the next read; polling would read the whole session each time.
  if (!mayBeOver) return
  const reads = turn.busyReads ?? 0
  turn.busyReads = reads + 1
  setTimer(turn, "recheck", Math.min(MAX_RECHECK_MS, RECHECK_MS * 2 ** reads))
}

/** OpenCode has finished this attempt: the prompt goes to the next model, or the turn ends. */
const conclude = (turn: Draft, why: ReadReason): void => {
  const outcome = outcomeOf(turn, why)
  if (outcome.type === "error" && mayOtherModelSucceed(turn) && canSwitch(turn)) {
    return switchModel(turn, outcome.error)
  }
  finish(turn, outcome.type === "error" ? listAttempts(turn, outcome.error) : outcome)
}

const BROKEN_OFF =
  "the answer is not complete: its stream broke off, and OpenCode ended before it could retry. Send the prompt again"

const outcomeOf = (turn: Draft, why: ReadReason): Outcome => {
  const { stopped } = turn
  const byUser = canceled(turn)
  if (byUser) return byUser
  if (stopped) return { type: "error", error: stopped.reason }
  const newest = turn.messages.at(-1)
  const isAborted = newest?.error?.name === "MessageAbortedError"
  // A restarted runner may have had to kill the old OpenCode: that abort was not requested by the user.
  if (isAborted && why !== "resume") return { type: "canceled", reason: STOPPED_IN_OPENCODE }
  if (newest?.error && !isAborted) {
    const model = turn.settings.models[turn.attempt]
    return { type: "error", error: describeBrokerError(newest.error.message, model) }
  }
  // Between two model steps no message is open, but the turn is unfinished: only a restart can leave it like that.
  const isResumed = why === "resume" || turn.resumed === true
  const cutShort = isResumed && newest?.finish === "tool-calls"
  if (newest?.open || cutShort || isAborted)
    return { type: "error", error: "OpenCode was stopped during the turn" }
  // A cut stream that OpenCode would have retried: it completed the message when it was ended, without a reason to finish.
  if (isResumed && newest && newest.finish === undefined && !newest.error)
    return { type: "error", error: BROKEN_OFF }
  if (!newest && turn.error) return { type: "error", error: turn.error.message }
  if (hasText(turn.texts) || turn.tools.length > 0) return { type: "ok" }
  return { type: "error", error: "the model returned an empty answer" }
}
