/** Sub-agents: their sessions belong to the turn that started them. Their tool calls and their words are sent. Pure. */
import type { AgentEvent, AgentMessage, AgentPart } from "../opencode/events/events.ts"
import type { Draft } from "./draft.ts"
import { reportUsage } from "./messages.ts"
import { addChild, onTool } from "./parts.ts"
import { onAgentRequest } from "./agent-requests.ts"
import { sendText } from "./send-text.ts"
import { childPartId, onDelta, onSnapshot } from "./text.ts"
import type { StoredMessage } from "./turn.ts"

type SessionEvent = Exclude<AgentEvent, { type: "connected" | "heartbeat" }>

export const onChildEvent = (turn: Draft, event: SessionEvent, at: number): void => {
  addChild(turn, event.agentSessionId)
  // Activity of a sub-agent counts as progress of the turn; becoming idle does not.
  if (event.type !== "idle") turn.progressAt = at
  switch (event.type) {
    case "part":
      return onChildPart(turn, event.part, true)
    case "delta":
      return onChildDelta(turn, event)
    case "message":
      onChildMessage(turn, event.message)
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

const onChildMessage = (turn: Draft, { id, role, isSummary }: AgentMessage): void => {
  const known = turn.childMessages ?? []
  if (role !== "assistant" || isSummary || known.includes(id)) return
  turn.childMessages = [...known, id]
}

/** `live`: the part comes from the event stream, in order; otherwise it was read over HTTP. */
const onChildPart = (turn: Draft, part: AgentPart, live: boolean): void => {
  if (part.kind === "tool") return onTool(turn, part)
  if (part.kind === "other" || part.synthetic) return
  if (!turn.childMessages?.includes(part.messageId)) return
  const id = childPartId(part.agentSessionId, part.id)
  sendText(turn, id, part.kind, onSnapshot(turn.texts, { ...part, id }, live))
}

const onChildDelta = (
  turn: Draft,
  { agentSessionId, partId, delta }: Extract<AgentEvent, { type: "delta" }>,
): void => {
  const id = childPartId(agentSessionId, partId)
  const kind = turn.texts.findLast((part) => part.id === id)?.kind ?? "text"
  sendText(turn, id, kind, onDelta(turn.texts, id, delta))
}

/** OpenCode reports a sub-agent's message as complete more than once: its usage is sent only the first time. */
const reportChildUsage = (turn: Draft, message: StoredMessage["message"]): void => {
  if (turn.countedChildMessages.includes(message.id)) return
  turn.countedChildMessages = [...turn.countedChildMessages, message.id]
  reportUsage(turn, message)
}

/** Applies the stored messages of sub-agents, for events that the stream missed. */
export const applyChildMessages = (turn: Draft, stored: readonly StoredMessage[]): void => {
  for (const { message, parts } of stored) {
    onChildMessage(turn, message)
    for (const part of parts) onChildPart(turn, part, false)
  }
}
