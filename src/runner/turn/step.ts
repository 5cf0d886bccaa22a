/**
 * The turn machine: an event and a turn give the next turn and the effects to perform. Pure: the time comes with the
 * event, and timers are effects. Each kind of event has its own file; every turn ends once, in finish.ts.
 */
import type { AgentEvent } from "../opencode/events/events.ts"
import { onChildEvent } from "./subagents.ts"
import { createMessage, type Draft, turnAddress, requestRead, send } from "./draft.ts"
import { onIdle, onRead, onReadFailed } from "./ending.ts"
import { finish } from "./finish.ts"
import { onSteered } from "./steering.ts"
import { onMessage } from "./messages.ts"
import { onPartDelta, onPart } from "./parts.ts"
import { onAgentRequest } from "./agent-requests.ts"
import { onPermissionReply } from "./permissions.ts"
import { checkPostLater, onPostFailed, start } from "./posting.ts"
import { onAnswer } from "./questions.ts"
import { resume } from "./turn-record.ts"
import { onRetry } from "./retry.ts"
import { canceled, stop } from "./stopping.ts"
import { onStreamGap } from "./text.ts"
import { onTimer } from "./timers.ts"
import type { Effect, Turn, TurnEvent } from "./turn.ts"

export const step = (
  turn: Turn,
  event: TurnEvent,
  at: number,
): readonly [Turn, readonly Effect[]] => {
  if (turn.phase === "ended") return [turn, []]
  const draft: Draft = { ...turn, effects: [] }
  handle(draft, event, at)
  // Effects are not part of the stored turn: with them, every event would count as a change to store.
  const { effects, ...next } = draft
  return [next, effects]
}

const handle = (turn: Draft, event: TurnEvent, at: number): void => {
  switch (event.type) {
    case "start":
      return start(turn, at)
    case "resume":
      return resume(turn, at)
    case "post-failed":
      return onPostFailed(turn, event.error, event.definite)
    case "agent":
      if (event.event.type === "connected" || event.event.type === "heartbeat") return
      return event.event.agentSessionId === turn.identity.agentSessionId
        ? onAgentEvent(turn, event.event, at)
        : onChildEvent(turn, event.event, at)
    case "read":
      return onRead(turn, event.why, event.snapshot, at)
    case "read-failed":
      return onReadFailed(turn, event.why)
    case "timer":
      return onTimer(turn, event.name, at)
    case "answer":
      return onAnswer(turn, event.questionId, event.answer)
    case "permission-reply":
      return onPermissionReply(turn, event.permissionId, event.reply)
    case "stop":
      return stop(turn, "user", event.reason)
    case "steered":
      return onSteered(turn, event.userMessageId)
    case "stream-gap":
      turn.texts = onStreamGap(turn.texts)
      turn.pendingCatchUps += 1
      return requestRead(turn, "stream-gap")
    case "agent-lost":
      // A turn that was being stopped counts as canceled, not as failed.
      return finish(turn, canceled(turn) ?? { type: "error", error: event.error })
  }
}

const onAgentEvent = (turn: Draft, event: AgentEvent, at: number): void => {
  switch (event.type) {
    case "message":
      return onMessage(turn, event.message, at)
    case "part":
      return onPart(turn, event.part, true, at)
    case "delta":
      return onPartDelta(turn, event, at)
    case "status":
      if (event.status.type === "retry") onRetry(turn, event.status, at)
      return
    case "idle":
      return onIdle(turn)
    case "error":
      turn.error = event.error
      // When OpenCode could not start the prompt at all, it may send no further event, not even idle.
      return checkPostLater(turn)
    case "compacted":
      createMessage(turn)
      return send(turn, { type: "compacted", ...turnAddress(turn) })
    case "todo": {
      createMessage(turn)
      const items = event.items.map((item) => ({ ...item }))
      return send(turn, { type: "todo", items, ...turnAddress(turn) })
    }
    case "question":
    case "question-closed":
    case "permission":
      return onAgentRequest(turn, event)
    default:
      return
  }
}
