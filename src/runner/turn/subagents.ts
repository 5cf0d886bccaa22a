/** Sub-agents: their sessions belong to the turn that asked for them; their tools show, their words do not. Pure. */
import type { AgentEvent, AgentPart } from "../opencode/events/events.ts"
import type { Draft } from "./draft.ts"
import { reportUsage } from "./messages.ts"
import { addChild, onTool } from "./parts.ts"
import { onPermission } from "./permissions.ts"
import { onQuestion, onQuestionClosed } from "./questions.ts"
import type { StoredMessage } from "./turn.ts"

type SessionEvent = Exclude<AgentEvent, { type: "connected" | "heartbeat" }>

export const onChildEvent = (turn: Draft, event: SessionEvent, at: number): void => {
  addChild(turn, event.agentSessionId)
  // A sub-agent that works is the turn at work; that it fell silent is not.
  if (event.type !== "idle") turn.progressAt = at
  switch (event.type) {
    case "part":
      return onChildPart(turn, event.part)
    case "message":
      if (event.message.role === "assistant" && event.message.completed) {
        reportChildUsage(turn, event.message)
      }
      return
    case "question":
      return onQuestion(turn, event.requestId, event.questions)
    case "question-closed":
      return onQuestionClosed(turn, event.requestId)
    case "permission":
      return onPermission(turn, event)
    default:
      return
  }
}

const onChildPart = (turn: Draft, part: AgentPart): void => {
  if (part.kind === "tool") onTool(turn, part)
}

/** A sub-agent's message is told complete more than once: it counts with its first. */
const reportChildUsage = (turn: Draft, message: StoredMessage["message"]): void => {
  if (turn.counted.includes(message.id)) return
  turn.counted = [...turn.counted, message.id]
  reportUsage(turn, message)
}

/** What the stream missed of the sub-agents. */
export const readChildren = (turn: Draft, stored: readonly StoredMessage[]): void => {
  for (const { parts } of stored) for (const part of parts) onChildPart(turn, part)
}
