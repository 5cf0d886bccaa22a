/**
 * The turn machine: what happened -> the turn after it, and what to do. One terminal transition (`finish`), taken
 * once; every way out of a turn leads through it. Pure: time comes in with the event, timers are effects.
 */
import type { AgentEvent, AgentMessage, AgentPart } from "../agent/events.ts"
import type { OutboundFrame } from "../protocol/index.ts"
import { answerQuestion, closeRequest, openQuestions } from "./questions.ts"
import { answerText, dropOpenParts, onDelta, onGap, onSnapshot, type TextStep } from "./text.ts"
import { cancelRunning, isRunning, onToolPart } from "./tool-calls.ts"
import type {
  Effect,
  Outcome,
  ReadReason,
  SessionSnapshot,
  TimerName,
  Turn,
  TurnEvent,
} from "./turn.ts"

/** No assistant message this long after the prompt was taken: look whether it really was. */
const LOOK_MS = 3000
/** OpenCode says idle while a message is open (it does, on errors and aborts): look again after this. */
const RECHECK_MS = 1500
/** A prompt posted this often without an answer is not posted again. */
const MAX_POSTS = 3

/** The turn while one event is worked on; only `step` makes one and only `step` lets it out. */
type Draft = { -readonly [Key in keyof Turn]: Turn[Key] } & { readonly effects: Effect[] }

export const step = (
  turn: Turn,
  event: TurnEvent,
  at: number,
): readonly [Turn, readonly Effect[]] => {
  if (turn.phase === "ended") return [turn, []]
  const draft: Draft = { ...turn, effects: [] }
  handle(draft, event, at)
  const { effects, ...next } = draft
  return [next, effects]
}

const handle = (turn: Draft, event: TurnEvent, at: number): void => {
  switch (event.type) {
    case "start":
      return start(turn, at)
    case "posted":
      return timer(turn, "look", LOOK_MS)
    case "post-failed":
      if (event.definite) return finish(turn, { type: "error", error: event.error })
      return timer(turn, "look", LOOK_MS)
    case "agent":
      return onAgentEvent(turn, event.event, at)
    case "read":
      return onRead(turn, event.why, event.snapshot, at)
    case "read-failed":
      // OpenCode does not answer now. Its death would be told; until then, ask again.
      return timer(turn, event.why === "look" ? "look" : "recheck", RECHECK_MS)
    case "timer":
      return onTimer(turn, event.name, at)
    case "answer":
      return onAnswer(turn, event.questionId, event.answer)
    case "stop":
      return stop(turn, "user", event.reason)
    case "gap":
      turn.texts = onGap(turn.texts)
      return read(turn, "gap")
    case "agent-lost":
      return finish(turn, { type: "error", error: event.error })
  }
}

const start = (turn: Draft, at: number): void => {
  turn.progressAt = at
  setStatus(turn, "thinking")
  post(turn)
  timer(turn, "first-event", turn.budgets.firstEvent)
  timer(turn, "progress", turn.budgets.progress)
  timer(turn, "total", turn.budgets.total)
}

const post = (turn: Draft): void => {
  turn.posts += 1
  turn.effects.push({ do: "post" })
}

// --- what OpenCode says -------------------------------------------------------------------------------------

const onAgentEvent = (turn: Draft, event: AgentEvent, at: number): void => {
  switch (event.type) {
    case "message":
      return onMessage(turn, event.message, at)
    case "part":
      return onPart(turn, event.part, true, at)
    case "delta": {
      if (!showsMessage(turn, event.messageId)) return
      turn.progressAt = at
      const kind = turn.texts.findLast((part) => part.id === event.partId)?.kind ?? "text"
      return say(turn, event.partId, kind, onDelta(turn.texts, event.partId, event.delta))
    }
    case "status":
      if (event.status.type === "retry") onRetry(turn, event.status)
      return
    case "idle":
      return onIdle(turn)
    case "error":
      turn.error = event.error
      return
    case "compacted":
      create(turn)
      return send(turn, { type: "compacted", turnId: turn.identity.turnId, ...address(turn) })
    case "todo":
      create(turn)
      return send(turn, {
        type: "todo",
        turnId: turn.identity.turnId,
        items: event.items.map((item) => ({ ...item })),
        ...address(turn),
      })
    case "question":
      return onQuestion(turn, event.requestId, openQuestions(event.requestId, event.questions))
    case "question-closed":
      return closeQuestions(turn, closeRequest(turn.questions, event.requestId))
    case "permission":
      turn.effects.push({ do: "allow", permissionId: event.permissionId })
      return
    default:
      return
  }
}

/** The messages that answer this prompt are those whose parent is ours; others of the session are not looked at. */
const onMessage = (turn: Draft, message: AgentMessage, at: number): void => {
  if (message.role === "user") return adoptParent(turn, message)
  const index = turn.messages.findIndex((known) => known.id === message.id)
  const known = turn.messages[index]
  if (!known && !turn.parents.includes(message.parentId ?? "")) return
  // Late news of a message that is complete cannot open it again.
  if (known && !known.open) return
  turn.progressAt = at
  const next = {
    id: message.id,
    open: !message.completed,
    isSummary: message.isSummary,
    ...(message.error && { error: message.error }),
  }
  turn.messages = known ? turn.messages.with(index, next) : [...turn.messages, next]
  if (turn.phase === "asked") turn.phase = "streaming"
  if (message.completed) reportUsage(turn, message)
}

/** A user message younger than the prompt is OpenCode's own (it compacts, then goes on): its answers are ours too. */
const adoptParent = (turn: Draft, message: AgentMessage): void => {
  if (message.id === turn.identity.userMessageId) {
    turn.askedAt = message.createdAt
    return
  }
  if (turn.askedAt === undefined || message.createdAt < turn.askedAt) return
  if (!turn.parents.includes(message.id)) turn.parents = [...turn.parents, message.id]
}

const reportUsage = (turn: Draft, { usage, model }: AgentMessage): void => {
  if (!usage || !model || usage.input + usage.output + usage.cacheRead === 0) return
  create(turn)
  send(turn, { type: "usage", turnId: turn.identity.turnId, model, ...usage, ...address(turn) })
}

const showsMessage = (turn: Draft, messageId: string): boolean =>
  turn.messages.findLast((message) => message.id === messageId)?.isSummary === false

const onPart = (turn: Draft, part: AgentPart, live: boolean, at: number): void => {
  if (!showsMessage(turn, part.messageId)) return
  if (live) turn.progressAt = at
  if (part.kind === "tool") return onTool(turn, part)
  if (part.kind === "other" || part.synthetic) return
  say(turn, part.id, part.kind, onSnapshot(turn.texts, part, live))
}

const say = (turn: Draft, partId: string, kind: "text" | "reasoning", said: TextStep): void => {
  turn.texts = said.texts
  if (said.delta === "") return
  create(turn)
  if (turn.status !== "streaming") setStatus(turn, "streaming")
  const { turnId } = turn.identity
  const type = kind === "text" ? "message.part.text-delta" : "message.part.reasoning-delta"
  send(turn, { type, turnId, partId, delta: said.delta, ...address(turn) })
}

const onTool = (turn: Draft, part: Extract<AgentPart, { kind: "tool" }>): void => {
  const { tools, update } = onToolPart(turn.tools, part)
  turn.tools = tools
  if (!update) return
  create(turn)
  send(turn, {
    type: "message.part.tool-update",
    turnId: turn.identity.turnId,
    ...update,
    ...address(turn),
  })
  if (isRunning(update)) setStatus(turn, "tool_calling", update.toolName)
  else if (!tools.some(isRunning)) setStatus(turn, "thinking")
}

const onRetry = (
  turn: Draft,
  status: { readonly attempt: number; readonly next: number; readonly message: string },
): void => {
  turn.texts = dropOpenParts(turn.texts)
  create(turn)
  const { turnId } = turn.identity
  const { attempt, next, message } = status
  send(turn, { type: "retry", turnId, attempt, next, message, ...address(turn) })
}

// --- questions ----------------------------------------------------------------------------------------------

const onQuestion = (
  turn: Draft,
  requestId: string,
  asked: ReturnType<typeof openQuestions>,
): void => {
  if (turn.questions.some((open) => open.requestId === requestId)) return
  turn.questions = [...turn.questions, ...asked]
  turn.phase = "waiting"
  create(turn)
  for (const { questionId, question } of asked) {
    const options = question.options.length > 0 ? { options: [...question.options] } : {}
    send(turn, { type: "question", questionId, text: question.text, ...options, ...address(turn) })
  }
}

const onAnswer = (turn: Draft, questionId: string, answer: string | boolean): void => {
  const answered = answerQuestion(turn.questions, questionId, answer)
  if (answered.type === "unknown") return
  closeQuestions(turn, answered.questions)
  const { type } = answered
  if (type === "reply") {
    const { requestId, answers } = answered
    turn.effects.push({ do: "reply-question", requestId, answers })
  }
  if (type === "reject") turn.effects.push({ do: "reject-question", requestId: answered.requestId })
}

const closeQuestions = (turn: Draft, questions: Turn["questions"]): void => {
  turn.questions = questions
  if (questions.length === 0 && turn.phase === "waiting") turn.phase = "streaming"
}

// --- the end ------------------------------------------------------------------------------------------------

/** Over is the first idle at which no message is open; an earlier idle is only a reason to look again. */
const onIdle = (turn: Draft): void => {
  const newest = turn.messages.at(-1)
  const settled = newest ? !newest.open : turn.error !== undefined
  if (!settled) return timer(turn, "recheck", RECHECK_MS)
  turn.phase = "ending"
  read(turn, "end")
}

/** What the stream missed is said first; then OpenCode's own word on whether it still works decides. */
const onRead = (turn: Draft, why: ReadReason, snapshot: SessionSnapshot, at: number): void => {
  for (const { message } of snapshot.messages) onMessage(turn, message, at)
  for (const { parts } of snapshot.messages) for (const part of parts) onPart(turn, part, false, at)
  if (snapshot.status.type !== "idle") return stillBusy(turn, why)
  const newest = turn.messages.at(-1)
  if (!newest && turn.error === undefined && !turn.stopped) return unanswered(turn, why)
  // Right after a gap a message may be a moment from its completion; only a second look may end it open.
  if (why === "gap" && newest?.open) return timer(turn, "recheck", RECHECK_MS)
  finish(turn, outcomeOf(turn))
}

const stillBusy = (turn: Draft, why: ReadReason): void => {
  if (turn.phase === "ending") turn.phase = "streaming"
  if (turn.stopped) turn.effects.push({ do: "abort" })
  if (why === "look" && turn.messages.length === 0) return timer(turn, "look", LOOK_MS)
  if (why !== "gap" || turn.stopped) timer(turn, "recheck", RECHECK_MS)
}

/** OpenCode took the prompt and does nothing with it: posting the same message again is harmless and wakes it. */
const unanswered = (turn: Draft, why: ReadReason): void => {
  if (why === "gap") return timer(turn, "look", LOOK_MS)
  if (turn.posts < MAX_POSTS) return post(turn)
  finish(turn, { type: "error", error: "OpenCode took the prompt but did not answer it" })
}

const outcomeOf = (turn: Draft): Outcome => {
  if (turn.stopped?.by === "user") return { type: "canceled", reason: turn.stopped.reason }
  if (turn.stopped) return { type: "error", error: turn.stopped.reason }
  const newest = turn.messages.at(-1)
  if (newest?.error) return { type: "error", error: newest.error.message }
  if (newest?.open) return { type: "error", error: "OpenCode stopped in the middle of its answer" }
  if (!newest && turn.error) return { type: "error", error: turn.error.message }
  if (turn.created) return { type: "ok" }
  return { type: "error", error: "the model returned an empty answer" }
}

const finish = (turn: Draft, outcome: Outcome): void => {
  const { turnId } = turn.identity
  const canceled = cancelRunning(turn.tools)
  turn.tools = canceled.tools
  for (const update of canceled.updates) {
    send(turn, { type: "message.part.tool-update", turnId, ...update, ...address(turn) })
  }
  for (const requestId of new Set(turn.questions.map((open) => open.requestId))) {
    turn.effects.push({ do: "reject-question", requestId })
  }
  turn.questions = []
  const error = outcome.type === "error" ? { error: outcome.error } : {}
  if (turn.created) {
    const reason = ({ ok: "end_turn", error: "error", canceled: "canceled" } as const)[outcome.type]
    const finalText = answerText(turn.texts)
    send(turn, { type: "message.finalize", turnId, reason, finalText, ...error, ...address(turn) })
  } else if (outcome.type === "error") {
    send(turn, { type: "error", error: outcome.error, ...address(turn) })
  }
  send(turn, { type: "complete", ...address(turn) })
  setStatus(turn, "idle")
  turn.phase = "ended"
  turn.effects.push({ do: "ended", outcome })
}

// --- timers and stopping --------------------------------------------------------------------------------------

const onTimer = (turn: Draft, name: TimerName, at: number): void => {
  switch (name) {
    case "look":
      return turn.messages.length === 0 ? read(turn, "look") : undefined
    case "recheck":
      return read(turn, "recheck")
    case "first-event":
      if (turn.messages.length > 0) return
      return stop(turn, "budget", `no answer within ${seconds(turn.budgets.firstEvent)}`)
    case "progress": {
      const waits = turn.tools.some(isRunning) || turn.phase === "waiting"
      const left = waits ? turn.budgets.progress : turn.progressAt + turn.budgets.progress - at
      if (left > 0) return timer(turn, "progress", left)
      return stop(turn, "budget", `no progress for ${seconds(turn.budgets.progress)}`)
    }
    case "total":
      return stop(turn, "budget", `the turn took longer than ${seconds(turn.budgets.total)}`)
  }
}

const seconds = (ms: number): string => `${Math.round(ms / 1000)} s`

/** The turn ends when OpenCode has really stopped, not when we ask it to. */
const stop = (turn: Draft, by: "user" | "budget", reason: string): void => {
  if (turn.phase === "ending" || turn.stopped) return
  turn.stopped = { by, reason }
  turn.effects.push({ do: "abort" })
  timer(turn, "recheck", RECHECK_MS)
}

// --- small words ------------------------------------------------------------------------------------------------

const address = (turn: Draft) => ({
  messageId: turn.identity.promptId,
  channelType: turn.identity.channelType,
  channelId: turn.identity.channelId,
})

const send = (turn: Draft, frame: OutboundFrame): void => {
  turn.effects.push({ do: "send", frame })
}

const read = (turn: Draft, why: ReadReason): void => {
  turn.effects.push({ do: "read", why })
}

const timer = (turn: Draft, name: TimerName, ms: number): void => {
  turn.effects.push({ do: "timer", name, ms })
}

/** The message appears with the first thing there is to show of it. */
const create = (turn: Draft): void => {
  if (turn.created) return
  turn.created = true
  const { turnId, sessionId } = turn.identity
  send(turn, { type: "message.create", turnId, opencodeSessionId: sessionId, ...address(turn) })
}

const setStatus = (turn: Draft, status: Turn["status"], detail?: string): void => {
  if (turn.status === status && turn.statusDetail === detail) return
  turn.status = status
  turn.statusDetail = detail
  const extra = detail === undefined ? {} : { detail }
  send(turn, { type: "agentStatus", status, ...extra, ...address(turn) })
}
