/** OpenCode's own retries: what the broken attempt said is void, and another model is tried before waiting. Pure. */
import { create, type Draft, ofTurn, send } from "./draft.ts"
import { canSwitch } from "./failover.ts"
import { stop } from "./stopping.ts"
import { voidParts } from "./text.ts"

interface RetryStatus {
  readonly attempt: number
  readonly next: number
  readonly message: string
}

export const onRetry = (turn: Draft, { attempt, next, message }: RetryStatus): void => {
  // Each wait ends later than the one before: what does not is old news, and the parts since are not void.
  if (turn.lastRetry && next <= turn.lastRetry.next) return
  turn.lastRetry = { message, next }
  const open = turn.messages.findLast((known) => known.open)
  const droppedParts = open ? drop(turn, partsOf(turn, open.id)) : []
  create(turn)
  const dropped = droppedParts.length > 0 ? { droppedParts } : {}
  send(turn, { type: "retry", attempt, next, message, ...dropped, ...ofTurn(turn) })
  if (canSwitch(turn)) stop(turn, "failover", message)
}

/** The stream did not tell of the retry, a second beginning did: the receiver must hear of the void parts all the same. */
export const dropAttempt = (turn: Draft, messageId: string): void =>
  dropParts(turn, partsOf(turn, messageId))

const partsOf = (turn: Draft, messageId: string): readonly string[] =>
  turn.texts.flatMap((part) => (part.messageId === messageId ? [part.id] : []))

export const dropParts = (turn: Draft, partIds: readonly string[]): void => {
  const droppedParts = drop(turn, partIds)
  if (droppedParts.length === 0) return
  create(turn)
  const message = turn.lastRetry?.message ?? "OpenCode made the attempt anew"
  send(turn, { type: "retry", attempt: 1, next: 0, message, droppedParts, ...ofTurn(turn) })
}

/** The ids of the parts that were shown and are void now. */
const drop = (turn: Draft, partIds: readonly string[]): string[] => {
  const before = turn.texts
  turn.texts = voidParts(before, partIds)
  return before.flatMap((part, index) =>
    part.sent > 0 && part !== turn.texts[index] ? [part.id] : [],
  )
}
