/** Which messages answer this prompt: those whose parent is its message, or one that OpenCode added to it. Pure. */
import type { AgentMessage } from "../opencode/events/events.ts"
import { create, type Draft, ofTurn, send } from "./draft.ts"
import { onAnsweredByOther } from "./steering.ts"
import { armBudgets } from "./timers.ts"
import type { TurnMessage } from "./turn.ts"

export const onMessage = (turn: Draft, message: AgentMessage, at: number): void => {
  if (message.role === "user") return adoptParent(turn, message)
  if (turn.voided.includes(message.id)) return
  if (turn.overtakenBy !== undefined && message.parentId === turn.overtakenBy) {
    return onAnsweredByOther(turn)
  }
  const index = turn.messages.findIndex((known) => known.id === message.id)
  const known = turn.messages[index]
  if (!known && !turn.parents.includes(message.parentId ?? "")) return
  // Late news of a message that is complete cannot open it again.
  if (known && !known.open) return
  turn.progressAt = at
  const next: TurnMessage = {
    ...known,
    id: message.id,
    open: !message.completed,
    isSummary: message.isSummary,
    ...(message.finish !== undefined && { finish: message.finish }),
    ...(message.error && { error: message.error }),
  }
  turn.messages = known ? turn.messages.with(index, next) : [...turn.messages, next]
  if (turn.phase === "asked") begin(turn)
  if (message.completed) reportUsage(turn, message)
}

const begin = (turn: Draft): void => {
  turn.phase = "streaming"
  if (turn.settings.joins) armBudgets(turn)
}

/** A user message younger than the prompt is OpenCode's own (it compacts, then goes on): its answers are ours too. */
const adoptParent = (turn: Draft, message: AgentMessage): void => {
  if (message.id === turn.identity.userMessageId) {
    turn.askedAt = message.createdAt
    return
  }
  // Once another prompt is in the conversation, what OpenCode adds may belong to that one.
  if (turn.overtakenBy !== undefined) return
  if (turn.askedAt === undefined || message.createdAt < turn.askedAt) return
  if (!turn.parents.includes(message.id)) turn.parents = [...turn.parents, message.id]
}

/** The raw buckets of one message, cache included: sums and prices are the reader's business. */
export const reportUsage = (turn: Draft, { usage, model }: AgentMessage): void => {
  if (!usage || !model) return
  const { input, output, reasoning, cacheRead, cacheWrite } = usage
  if (input + output + reasoning + cacheRead + cacheWrite === 0) return
  create(turn)
  send(turn, { type: "usage", model, ...usage, ...ofTurn(turn) })
}

/** A compaction's summary is the model talking to itself. */
export const showsMessage = (turn: Draft, messageId: string): boolean =>
  turn.messages.findLast((message) => message.id === messageId)?.isSummary === false
