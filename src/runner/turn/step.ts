/**
 * The turn machine: what happened -> the turn after it, and what to do. Pure: time comes in with the event, timers
 * are effects. Each kind of event has its own file; every way out leads through `finish` in ending.ts, once.
 */
import type { AgentEvent } from "../opencode/events/events.ts"
import { onChildEvent } from "./subagents.ts"
import { create, type Draft, ofTurn, read, send } from "./draft.ts"
import { onIdle, onRead, onReadFailed } from "./ending.ts"
import { finish } from "./finish.ts"
import { onOvertaken } from "./steering.ts"
import { onMessage } from "./messages.ts"
import { onPartDelta, onPart } from "./parts.ts"
import { onPermission, onPermissionReply } from "./permissions.ts"
import { lookAgain, onPostFailed, start } from "./posting.ts"
import { onAnswer, onQuestion, onQuestionClosed } from "./questions.ts"
import { resume } from "./turn-record.ts"
import { onRetry } from "./retry.ts"
import { canceled, stop } from "./stopping.ts"
import { onGap } from "./text.ts"
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
  // The effects are not part of the turn: kept with it, they would make every event a change worth storing.
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
      return event.event.agentSessionId === turn.identity.sessionId
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
    case "overtaken":
      return onOvertaken(turn, event.userMessageId)
    case "gap":
      turn.texts = onGap(turn.texts)
      turn.missing += 1
      return read(turn, "gap")
    case "agent-lost":
      // Whoever wanted it stopped has got that, though not from OpenCode.
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
      if (event.status.type === "retry") onRetry(turn, event.status)
      return
    case "idle":
      return onIdle(turn)
    case "error":
      turn.error = event.error
      // OpenCode may say nothing more, not even idle, when it could not begin at all.
      return lookAgain(turn)
    case "compacted":
      create(turn)
      return send(turn, { type: "compacted", ...ofTurn(turn) })
    case "todo": {
      create(turn)
      const items = event.items.map((item) => ({ ...item }))
      return send(turn, { type: "todo", items, ...ofTurn(turn) })
    }
    case "question":
      return onQuestion(turn, event.requestId, event.questions)
    case "question-closed":
      return onQuestionClosed(turn, event.requestId)
    case "permission":
      return onPermission(turn, event)
    default:
      return
  }
}
