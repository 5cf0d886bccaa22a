/** Reports a job's outcome, text and tool results to the code in this runner that started it (a workflow step). */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import type { Outcome } from "../turn/turn.ts"

export interface JobReport {
  readonly outcome: Outcome
  readonly text: string
  /** Ended tool calls of the turn in the order in which they ended, without those of sub-agents. */
  readonly tools: readonly ToolReport[]
}

interface ToolReport {
  readonly tool: string
  readonly result?: string | undefined
  readonly error?: string | undefined
}

export interface JobWaiters {
  readonly wait: (id: string) => Promise<JobReport>
  /** Collects tool results from the frames of a turn. */
  readonly observe: (frame: OutboundFrame) => void
  readonly ended: (id: string, outcome: Outcome, text: string | undefined) => void
}

export const createJobWaiters = (): JobWaiters => {
  const waiting = new Map<
    string,
    { readonly tools: ToolReport[]; readonly resolve: (report: JobReport) => void }
  >()
  return {
    wait: (id) => new Promise((resolve) => void waiting.set(id, { tools: [], resolve })),
    observe: (frame) => {
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
