/** Who listens to which OpenCode session. A sub-agent's session is heard by whoever hears its parent. */
import type { AgentEvent } from "../opencode/events/events.ts"

export interface Listener {
  readonly hear: (event: AgentEvent) => void
}

export interface Listeners {
  readonly listen: (sessionId: string, listener: Listener) => void
  readonly forget: (sessionId: string) => void
  readonly dispatch: (event: AgentEvent) => void
}

export const createListeners = (
  onChildSession: (childId: string, parentId: string) => void,
): Listeners => {
  const listeners = new Map<string, Listener>()
  const inherit = (childId: string | undefined, parentId: string | undefined): void => {
    if (childId === undefined || parentId === undefined || listeners.has(childId)) return
    const listener = listeners.get(parentId)
    if (!listener) return
    listeners.set(childId, listener)
    onChildSession(childId, parentId)
  }
  return {
    listen: (sessionId, listener) => void listeners.set(sessionId, listener),
    forget: (sessionId) => void listeners.delete(sessionId),
    dispatch: (event) => {
      if (!("agentSessionId" in event)) return
      if (event.type === "session") inherit(event.agentSessionId, event.parentId)
      // A sub-agent that is called again has no new session: only the tool call tells of it.
      if (event.type === "part" && event.part.kind === "tool") {
        inherit(event.part.childSessionId, event.agentSessionId)
      }
      listeners.get(event.agentSessionId)?.hear(event)
    },
  }
}
