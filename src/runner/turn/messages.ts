/** Finds the messages that answer this prompt: their parent is its user message or one that OpenCode added. Pure. */
import type { AgentMessage } from "../opencode/events/events.ts"
import { createMessage, type Draft, turnAddress, send } from "./draft.ts"
import { onSteeringPromptAnswered } from "./steering.ts"
import { armBudgets } from "./timers.ts"
import type { TurnMessage } from "./turn.ts"

export const onMessage = (turn: Draft, message: AgentMessage, at: number): void => {
  if (message.role === "user") return adoptParent(turn, message)
  if (turn.discardedMessages.includes(message.id)) return
  if (turn.steeredBy !== undefined && message.parentId === turn.steeredBy) {
    return onSteeringPromptAnswered(turn)
  }
  const index = turn.messages.findIndex((known) => known.id === message.id)
  const known = turn.messages[index]
  if (!known && !turn.parentIds.includes(message.parentId ?? "")) return
  // A late update cannot reopen a completed message.
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
  if (turn.phase === "asked") startStreaming(turn)
  if (message.completed) reportUsage(turn, message)
}

const startStreaming = (turn: Draft): void => {
  turn.phase = "streaming"
  if (turn.settings.joins) armBudgets(turn)
}

/** OpenCode adds user messages after the prompt (it compacts, then continues): their answers belong to this turn. */
const adoptParent = (turn: Draft, message: AgentMessage): void => {
  if (message.id === turn.identity.userMessageId) {
    turn.promptCreatedAt = message.createdAt
    return
  }
  // Once a prompt steers this turn, later user messages may belong to that prompt.
  if (turn.steeredBy !== undefined || turn.settings.endsBefore !== undefined) return
  if (turn.promptCreatedAt === undefined || message.createdAt < turn.promptCreatedAt) return
  if (!turn.parentIds.includes(message.id)) turn.parentIds = [...turn.parentIds, message.id]
}

/** Sends the raw token counts of one message, cache included; the receiver computes sums and prices. */
export const reportUsage = (turn: Draft, { usage, model, agentSessionId }: AgentMessage): void => {
  if (!usage || !model) return
  const { input, output, reasoning, cacheRead, cacheWrite } = usage
  if (input + output + reasoning + cacheRead + cacheWrite === 0) return
  createMessage(turn)
  const child =
    agentSessionId === turn.identity.agentSessionId ? {} : { childSessionId: agentSessionId }
  send(turn, { type: "usage", model, ...usage, ...child, ...turnAddress(turn) })
}

/** The summary that a compaction writes is not part of the answer. */
export const isShownMessage = (turn: Draft, messageId: string): boolean =>
  turn.messages.findLast((message) => message.id === messageId)?.isSummary === false
