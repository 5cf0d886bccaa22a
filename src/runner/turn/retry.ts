/** OpenCode's own retries: drops the text of the failed attempt, and tries another model instead of waiting. Pure. */
import { describeBrokerError } from "./broker-error.ts"
import { createMessage, type Draft, turnAddress, send } from "./draft.ts"
import { canSwitch } from "./failover.ts"
import { stop } from "./stopping.ts"
import { seconds } from "./timeouts.ts"
import { markDropped } from "./text.ts"

interface RetryStatus {
  readonly attempt: number
  readonly next: number
  readonly message: string
}

/** OpenCode's own limit; its versions before 1.18.17 have none. */
const MAX_RETRIES = 5
/** No provider asks for this: the clocks of OpenCode and of the runner differ, and the timers of the turn decide. */
const YEAR_MS = 365 * 86_400_000

export const onRetry = (
  turn: Draft,
  { attempt, next, message: reported }: RetryStatus,
  at: number,
): void => {
  // Each retry has a later time than the one before. An older one is a late event: the parts since then are valid.
  if (turn.lastRetry && next <= turn.lastRetry.next) return
  const message = describeBrokerError(reported, turn.settings.models[turn.attempt])
  turn.lastRetry = { message, next }
  const open = turn.messages.findLast((known) => known.open)
  const droppedParts = open ? markDroppedAndList(turn, partsOf(turn, open.id)) : []
  createMessage(turn)
  const dropped = droppedParts.length > 0 ? { droppedParts } : {}
  send(turn, { type: "retry", attempt, next, message, ...dropped, ...turnAddress(turn) })
  if (canSwitch(turn)) return stop(turn, "failover", message)
  const limit = limitOfRetries(turn, attempt, next - at)
  if (limit !== undefined) stop(turn, "budget", `${limit} (the provider reported: ${message})`)
}

/** Why the attempt ends instead of waiting `wait` milliseconds for the retry. A turn of another client has no limit here. */
const limitOfRetries = (turn: Draft, attempt: number, wait: number): string | undefined => {
  if (turn.settings.observed === true) return undefined
  const { progress } = turn.settings.budgets
  if (wait > progress && wait < YEAR_MS)
    return `not retried: the provider asks to wait ${seconds(wait)}, longer than the ${seconds(progress)} that a turn may make no progress`
  return attempt > MAX_RETRIES ? `still no answer after ${MAX_RETRIES} retries` : undefined
}

/** For a retry that only a second `step-start` revealed: the receiver still needs the ids of the dropped parts. */
export const dropAttempt = (turn: Draft, messageId: string): void =>
  dropParts(turn, partsOf(turn, messageId))

const partsOf = (turn: Draft, messageId: string): readonly string[] =>
  turn.texts.flatMap((part) => (part.messageId === messageId ? [part.id] : []))

export const dropParts = (turn: Draft, partIds: readonly string[]): void => {
  const droppedParts = markDroppedAndList(turn, partIds)
  if (droppedParts.length === 0) return
  createMessage(turn)
  const message = turn.lastRetry?.message ?? "OpenCode retried the attempt"
  send(turn, { type: "retry", attempt: 1, next: 0, message, droppedParts, ...turnAddress(turn) })
}

/** Returns the ids of the newly dropped parts of which text was sent. */
const markDroppedAndList = (turn: Draft, partIds: readonly string[]): string[] => {
  const before = turn.texts
  turn.texts = markDropped(before, partIds)
  return before.flatMap((part, index) =>
    part.sent > 0 && part !== turn.texts[index] ? [part.id] : [],
  )
}
