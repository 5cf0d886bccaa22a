/**
 * Waits for OpenCode's summary of a prompt's changes. OpenCode computes it shortly after the session is idle and then
 * updates the user message once more. The wait is limited: an aborted prompt may never get a summary.
 */
import type { AgentEvent } from "../opencode/events/events.ts"
import type { Clock } from "../../lib/clock.ts"

export interface Summaries {
  readonly onEvent: (event: AgentEvent) => void
  /** Resolves when the summary of the session's last prompt is there, or after the limit. */
  readonly waitFor: (agentSessionId: string) => Promise<void>
}

const WAIT_MS = 3000

export const createSummaries = (clock: Clock): Summaries => {
  /** Sessions that became idle and have no summary yet, with the callers that wait for it. */
  const awaitingSummary = new Map<string, (() => void)[]>()
  const onSummary = (agentSessionId: string) => {
    const waiting = awaitingSummary.get(agentSessionId) ?? []
    awaitingSummary.delete(agentSessionId)
    for (const wake of waiting) wake()
  }
  return {
    onEvent: (event) => {
      if (event.type === "idle")
        awaitingSummary.set(event.agentSessionId, awaitingSummary.get(event.agentSessionId) ?? [])
      if (event.type === "message" && event.message.role === "user") onSummary(event.agentSessionId)
    },
    waitFor: (agentSessionId) =>
      new Promise((resolve) => {
        const waiting = awaitingSummary.get(agentSessionId)
        if (!waiting) return resolve()
        const cancel = clock.after(WAIT_MS, () => onSummary(agentSessionId))
        waiting.push(() => {
          cancel()
          resolve()
        })
      }),
  }
}
