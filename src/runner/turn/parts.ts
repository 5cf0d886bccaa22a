/** Handles the parts of an answer: text, reasoning, tool calls, and the `step-start` parts that begin an attempt. Pure. */
import type { AgentEvent, AgentPart } from "../opencode/events/events.ts"
import { createMessage, type Draft, turnAddress, send, setStatus } from "./draft.ts"
import { isShownMessage } from "./messages.ts"
import { dropAttempt, dropParts } from "./retry.ts"
import { onDelta, onSnapshot } from "./text.ts"
import { isRunning, onToolPart, type ToolUpdate } from "./tool-calls.ts"
import { endOutput, onToolOutput } from "./tool-output.ts"
import { sendText } from "./send-text.ts"

/** `live`: the part comes from the event stream, in order; otherwise it was read over HTTP. */
export const onPart = (turn: Draft, part: AgentPart, live: boolean, at: number): void => {
  if (!isShownMessage(turn, part.messageId)) return
  turn.modelResponded = true
  if (live) turn.progressAt = at
  if (part.kind === "tool") return onTool(turn, part)
  if (part.kind === "other") return isStepStart(part) ? onStepStart(turn, part) : undefined
  if (!part.synthetic) sendText(turn, part.id, part.kind, onSnapshot(turn.texts, part, live))
}

export const onPartDelta = (
  turn: Draft,
  { messageId, partId, delta }: Extract<AgentEvent, { type: "delta" }>,
  at: number,
): void => {
  if (!isShownMessage(turn, messageId)) return
  turn.progressAt = at
  const kind = turn.texts.findLast((part) => part.id === partId)?.kind ?? "text"
  sendText(turn, partId, kind, onDelta(turn.texts, partId, delta))
}

export const onTool = (turn: Draft, part: Extract<AgentPart, { kind: "tool" }>): void => {
  const { agentSessionId } = turn.identity
  const { tools, update } = onToolPart(turn.tools, part, part.agentSessionId !== agentSessionId)
  turn.tools = tools
  // A tool with an error may never have started, so that status does not count.
  if (part.status === "running" || part.status === "completed") turn.toolRan = true
  if (part.childSessionId !== undefined) addChild(turn, part.childSessionId)
  if (!update) return onToolOutput(turn, part)
  createMessage(turn)
  if (!isRunning(update)) endOutput(turn, update)
  send(turn, { type: "message.part.tool-update", ...copyFiles(update), ...turnAddress(turn) })
  onToolOutput(turn, part)
  if (isRunning(update)) setStatus(turn, "tool_calling", update.toolName)
  else if (!tools.some(isRunning)) setStatus(turn, "thinking")
}

/** Frames hold mutable lists. */
const copyFiles = ({ files, ...update }: ToolUpdate) => ({
  ...update,
  ...(files && { files: [...files] }),
})

export const addChild = (turn: Draft, agentSessionId: string): void => {
  if (agentSessionId === turn.identity.agentSessionId || turn.children.includes(agentSessionId))
    return
  turn.children = [...turn.children, agentSessionId]
}

/** The parts of a message as OpenCode stores them: text before the last `step-start` belongs to attempts it gave up. */
export const onStoredParts = (turn: Draft, parts: readonly AgentPart[], at: number): void => {
  const lastStart = parts.findLastIndex(isStepStart)
  const first = parts[lastStart]
  const messageIndex = turn.messages.findLastIndex((message) => message.id === first?.messageId)
  const message = turn.messages[messageIndex]
  const discarded = parts
    .slice(0, Math.max(0, lastStart))
    .filter(({ kind }) => kind === "text" || kind === "reasoning")
  if (message) {
    const steps = parts.filter(isStepStart).map(({ id }) => id)
    turn.messages = turn.messages.with(messageIndex, { ...message, steps })
    dropParts(
      turn,
      discarded.map(({ id }) => id),
    )
  }
  for (const part of parts) if (!discarded.includes(part)) onPart(turn, part, false, at)
}

const isStepStart = (part: AgentPart): boolean =>
  part.kind === "other" && part.type === "step-start"

/** A second `step-start` in a message means that OpenCode retried a failed attempt inside that message. */
const onStepStart = (turn: Draft, part: AgentPart): void => {
  const index = turn.messages.findLastIndex((message) => message.id === part.messageId)
  const message = turn.messages[index]
  const steps = message?.steps ?? []
  if (!message || steps.includes(part.id)) return
  if (steps.length > 0) dropAttempt(turn, message.id)
  turn.messages = turn.messages.with(index, { ...message, steps: [...steps, part.id] })
}
