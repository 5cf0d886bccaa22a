/** The pieces of an answer as they come: words, reasoning, tool calls, and the marks where an attempt begins. Pure. */
import type { AgentEvent, AgentPart } from "../opencode/events/events.ts"
import { create, type Draft, ofTurn, send, setStatus } from "./draft.ts"
import { showsMessage } from "./messages.ts"
import { dropAttempt, dropParts } from "./retry.ts"
import { onDelta, onSnapshot } from "./text.ts"
import { isRunning, onToolPart } from "./tool-calls.ts"
import { say } from "./send-text.ts"

/** `live` is from the stream, in its order; otherwise the part was read beside it. */
export const onPart = (turn: Draft, part: AgentPart, live: boolean, at: number): void => {
  if (!showsMessage(turn, part.messageId)) return
  turn.heard = true
  if (live) turn.progressAt = at
  if (part.kind === "tool") return onTool(turn, part)
  if (part.kind === "other") return isStepStart(part) ? onStepStart(turn, part) : undefined
  if (!part.synthetic) say(turn, part.id, part.kind, onSnapshot(turn.texts, part, live))
}

export const onPartDelta = (
  turn: Draft,
  { messageId, partId, delta }: Extract<AgentEvent, { type: "delta" }>,
  at: number,
): void => {
  if (!showsMessage(turn, messageId)) return
  turn.progressAt = at
  const kind = turn.texts.findLast((part) => part.id === partId)?.kind ?? "text"
  say(turn, partId, kind, onDelta(turn.texts, partId, delta))
}

export const onTool = (turn: Draft, part: Extract<AgentPart, { kind: "tool" }>): void => {
  const { sessionId } = turn.identity
  const { tools, update } = onToolPart(turn.tools, part, part.agentSessionId !== sessionId)
  turn.tools = tools
  // What completed has run; an error may come before the tool was ever started.
  if (part.status === "running" || part.status === "completed") turn.toolRan = true
  if (part.childSessionId !== undefined) addChild(turn, part.childSessionId)
  if (!update) return
  create(turn)
  send(turn, { type: "message.part.tool-update", ...update, ...ofTurn(turn) })
  if (isRunning(update)) setStatus(turn, "tool_calling", update.toolName)
  else if (!tools.some(isRunning)) setStatus(turn, "thinking")
}

export const addChild = (turn: Draft, sessionId: string): void => {
  if (sessionId === turn.identity.sessionId || turn.children.includes(sessionId)) return
  turn.children = [...turn.children, sessionId]
}

/** The parts of a message as OpenCode stores them: those of attempts that it gave up stand before the last beginning. */
export const onStoredParts = (turn: Draft, parts: readonly AgentPart[], at: number): void => {
  const begin = parts.findLastIndex(isStepStart)
  const first = parts[begin]
  const messageIndex = turn.messages.findLastIndex((message) => message.id === first?.messageId)
  const message = turn.messages[messageIndex]
  const voided = parts
    .slice(0, Math.max(0, begin))
    .filter(({ kind }) => kind === "text" || kind === "reasoning")
  if (message) {
    const steps = parts.filter(isStepStart).map(({ id }) => id)
    turn.messages = turn.messages.with(messageIndex, { ...message, steps })
    dropParts(
      turn,
      voided.map(({ id }) => id),
    )
  }
  for (const part of parts) if (!voided.includes(part)) onPart(turn, part, false, at)
}

const isStepStart = (part: AgentPart): boolean =>
  part.kind === "other" && part.type === "step-start"

/** A model step begins once; when it begins again, OpenCode made a broken attempt anew inside the same message. */
const onStepStart = (turn: Draft, part: AgentPart): void => {
  const index = turn.messages.findLastIndex((message) => message.id === part.messageId)
  const message = turn.messages[index]
  const steps = message?.steps ?? []
  if (!message || steps.includes(part.id)) return
  if (steps.length > 0) dropAttempt(turn, message.id)
  turn.messages = turn.messages.with(index, { ...message, steps: [...steps, part.id] })
}
