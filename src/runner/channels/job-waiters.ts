/** Jobs that somebody in this runner waits for: how each ended, what was said, what its tools gave. */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import type { Outcome } from "../turn/turn.ts"

export interface JobReport {
  readonly outcome: Outcome
  readonly text: string
  /** The turn's own calls that have ended, in that order; those of sub-agents are not among them. */
  readonly tools: readonly ToolReport[]
}

interface ToolReport {
  readonly tool: string
  readonly result?: string | undefined
  readonly error?: string | undefined
}

export interface Awaited {
  readonly wait: (id: string) => Promise<JobReport>
  readonly saw: (frame: OutboundFrame) => void
  readonly ended: (id: string, outcome: Outcome, text: string | undefined) => void
}

export const createAwaited = (): Awaited => {
  const waiting = new Map<
    string,
    { readonly tools: ToolReport[]; readonly resolve: (report: JobReport) => void }
  >()
  return {
    wait: (id) => new Promise((resolve) => void waiting.set(id, { tools: [], resolve })),
    saw: (frame) => {
      if (frame.type !== "message.part.tool-update" || frame.childSessionId !== undefined) return
      if (frame.status !== "completed" && frame.status !== "error") return
      const { toolName: tool, result, error } = frame
      const found = waiting.get(frame.messageId ?? "")
      found?.tools.push({ tool, result: typeof result === "string" ? result : undefined, error })
    },
    ended: (id, outcome, text = "") => {
      const found = waiting.get(id)
      waiting.delete(id)
      found?.resolve({ outcome, text, tools: found.tools })
    },
  }
}
