/** Delivers OpenCode's events by agent session. A sub-agent's session gets the listener of its parent session. */
import type { AgentEvent } from "../opencode/events/events.ts"

export interface Listener {
  readonly onEvent: (event: AgentEvent) => void
}

export interface EventRouter {
  readonly subscribe: (agentSessionId: string, listener: Listener) => void
  readonly unsubscribe: (agentSessionId: string) => void
  readonly dispatch: (event: AgentEvent) => void
}

export const createEventRouter = (
  onChildSession: (childId: string, parentId: string) => void,
): EventRouter => {
  const listeners = new Map<string, Listener>()
  const inherit = (childId: string | undefined, parentId: string | undefined): void => {
    if (childId === undefined || parentId === undefined || listeners.has(childId)) return
    const listener = listeners.get(parentId)
    if (!listener) return
    listeners.set(childId, listener)
    onChildSession(childId, parentId)
  }
  return {
    subscribe: (agentSessionId, listener) => void listeners.set(agentSessionId, listener),
    unsubscribe: (agentSessionId) => void listeners.delete(agentSessionId),
    dispatch: (event) => {
      if (!("agentSessionId" in event)) return
      if (event.type === "session") inherit(event.agentSessionId, event.parentId)
      // A sub-agent that is called again reuses its session: only the tool call names that session.
      if (event.type === "part" && event.part.kind === "tool") {
        inherit(event.part.childSessionId, event.agentSessionId)
      }
      listeners.get(event.agentSessionId)?.onEvent(event)
    },
  }
}
