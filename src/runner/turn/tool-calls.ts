/** Tool calls of a turn: the status of a call only moves forward, and every call ends. Pure. */
import type { AgentToolPart, ToolDetails, ToolStatus } from "../opencode/events/events.ts"

export interface ToolCall {
  readonly callId: string
  readonly toolName: string
  readonly status: ToolStatus
  /** The sub-agent's session that made the call; absent for the turn's own calls. */
  readonly childSessionId?: string
  /** Of a `task` call: the session of the sub-agent that it started. It becomes known while the call runs. */
  readonly child?: string
}

export interface ToolUpdate extends ToolCall, ToolDetails {
  readonly args?: unknown
  readonly result?: string
  readonly error?: string
  /** Of a `task` call: the kind of sub-agent. */
  readonly agent?: string
}

const rank: Record<ToolStatus, number> = { pending: 0, running: 1, completed: 2, error: 2 }

/** The calls after this part, and the update to send; undefined when the part is late or has nothing new. */
export const onToolPart = (
  tools: readonly ToolCall[],
  part: AgentToolPart,
  isChild: boolean,
): { readonly tools: readonly ToolCall[]; readonly update: ToolUpdate | undefined } => {
  const childSessionId = isChild ? part.agentSessionId : undefined
  // Providers number calls per conversation: a sub-agent's call may have the same id as one of the turn.
  const index = tools.findLastIndex(
    (call) => call.callId === part.callId && call.childSessionId === childSessionId,
  )
  const known = tools[index]
  const child = part.childSessionId ?? known?.child
  const isNewChild = child !== known?.child && part.status === known?.status
  if (known && rank[part.status] <= rank[known.status] && !isNewChild)
    return { tools, update: undefined }
  const call: ToolCall = {
    callId: part.callId,
    toolName: part.tool,
    status: part.status,
    ...(childSessionId !== undefined && { childSessionId }),
    ...(child !== undefined && { child }),
  }
  const agent = subAgentOf(part)
  return {
    tools: index === -1 ? [...tools, call] : tools.with(index, call),
    update: {
      ...call,
      ...(part.input !== undefined && part.status !== "pending" && { args: part.input }),
      ...(part.output !== undefined && { result: part.output }),
      ...(part.error !== undefined && { error: part.error }),
      ...part.details,
      ...(agent !== undefined && { agent }),
    },
  }
}

const subAgentOf = ({ tool, input }: AgentToolPart): string | undefined => {
  if (tool !== "task" || typeof input !== "object" || input === null) return undefined
  const kind = (input as { readonly subagent_type?: unknown }).subagent_type
  return typeof kind === "string" ? kind : undefined
}

export const isRunning = (call: ToolCall): boolean => rank[call.status] < rank.completed

/** Calls that still run at the end of a turn are reported as canceled, never as completed. */
export const cancelRunning = (
  tools: readonly ToolCall[],
): { readonly tools: readonly ToolCall[]; readonly updates: readonly ToolUpdate[] } => ({
  tools: tools.map((call) => (isRunning(call) ? { ...call, status: "error" } : call)),
  updates: tools.filter(isRunning).map((call) => ({ ...call, status: "error", error: "canceled" })),
})
