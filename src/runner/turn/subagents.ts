/** Sub-agents: their sessions belong to the turn that started them. Their tool calls are sent, their text is not. Pure. */
import type { AgentEvent, AgentPart } from "../opencode/events/events.ts"
import type { Draft } from "./draft.ts"
import { reportUsage } from "./messages.ts"
import { addChild, onTool } from "./parts.ts"
import { onAgentRequest } from "./agent-requests.ts"
import type { StoredMessage } from "./turn.ts"

type SessionEvent = Exclude<AgentEvent, { type: "connected" | "heartbeat" }>

export const onChildEvent = (turn: Draft, event: SessionEvent, at: number): void => {
  addChild(turn, event.agentSessionId)
  // Activity of a sub-agent counts as progress of the turn; becoming idle does not.
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
    case "question-closed":
    case "permission":
      return onAgentRequest(turn, event)
    default:
      return
  }
}

const onChildPart = (turn: Draft, part: AgentPart): void => {
  if (part.kind === "tool") onTool(turn, part)
}

/** OpenCode reports a sub-agent's message as complete more than once: its usage is sent only the first time. */
const reportChildUsage = (turn: Draft, message: StoredMessage["message"]): void => {
  if (turn.countedChildMessages.includes(message.id)) return
  turn.countedChildMessages = [...turn.countedChildMessages, message.id]
  reportUsage(turn, message)
}

/** Applies the stored messages of sub-agents, for events that the stream missed. */
export const applyChildMessages = (turn: Draft, stored: readonly StoredMessage[]): void => {
  for (const { parts } of stored) for (const part of parts) onChildPart(turn, part)
}
