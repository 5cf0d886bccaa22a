/**
 * What a prompt has changed is summed up by OpenCode a moment after it has fallen idle, and told by a last update of the
 * user's message. Who asks for changes waits for that, but not for ever: an aborted prompt may never be summed up.
 */
import type { AgentEvent } from "../opencode/events/events.ts"
import type { Clock } from "../../lib/clock.ts"

export interface Summaries {
  readonly hear: (event: AgentEvent) => void
  /** Resolves when the session's last prompt is summed up. */
  readonly of: (sessionId: string) => Promise<void>
}

const WAIT_MS = 3000

export const createSummaries = (clock: Clock): Summaries => {
  /** Sessions that fell idle and were not summed up since, with those who wait for it. */
  const due = new Map<string, (() => void)[]>()
  const summedUp = (sessionId: string) => {
    const waiting = due.get(sessionId) ?? []
    due.delete(sessionId)
    for (const wake of waiting) wake()
  }
  return {
    hear: (event) => {
      if (event.type === "idle") due.set(event.agentSessionId, due.get(event.agentSessionId) ?? [])
      if (event.type === "message" && event.message.role === "user") summedUp(event.agentSessionId)
    },
    of: (sessionId) =>
      new Promise((resolve) => {
        const waiting = due.get(sessionId)
        if (!waiting) return resolve()
        const cancel = clock.after(WAIT_MS, () => summedUp(sessionId))
        waiting.push(() => {
          cancel()
          resolve()
        })
      }),
  }
}
