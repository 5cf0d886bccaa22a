/** Questions of the agent. One request may contain several; it is replied to when all of them are answered. Pure. */
import type { AgentQuestion } from "../opencode/events/events.ts"
import { promptAddress, createMessage, type Draft, send } from "./draft.ts"

export interface OpenQuestion {
  readonly questionId: string
  readonly requestId: string
  readonly question: AgentQuestion
  readonly answer: readonly string[] | undefined
}

export const onQuestion = (
  turn: Draft,
  requestId: string,
  questions: readonly AgentQuestion[],
): void => {
  if (turn.questions.some((open) => open.requestId === requestId)) return
  const opened = questions.map((question, index) => ({
    questionId: questions.length === 1 ? requestId : `${requestId}:${index}`,
    requestId,
    question,
    answer: undefined,
  }))
  turn.questions = [...turn.questions, ...opened]
  turn.phase = "waiting"
  createMessage(turn)
  for (const { questionId, question } of opened) {
    const options = question.options.length > 0 ? { options: [...question.options] } : {}
    const multiple = question.multiple ? { multiple: true } : {}
    const { text } = question
    send(turn, {
      type: "question",
      questionId,
      text,
      ...options,
      ...multiple,
      ...promptAddress(turn),
    })
  }
}

/** The session agent sends this instead of an answer when the question has timed out. */
const EXPIRED = "__expired__"

/** A second answer to a question, or an answer to a closed one, is ignored. */
export const onAnswer = (turn: Draft, questionId: string, answer: string | boolean): void => {
  const index = turn.questions.findIndex((open) => open.questionId === questionId)
  const open = turn.questions[index]
  if (!open || open.answer !== undefined) return
  const { requestId } = open
  if (answer === EXPIRED) {
    turn.effects.push({ do: "reject-question", requestId })
    return onQuestionClosed(turn, requestId)
  }
  turn.questions = turn.questions.with(index, {
    ...open,
    answer: toChoices(open.question, answer),
  })
  const siblings = turn.questions.filter((other) => other.requestId === requestId)
  const answers = siblings.flatMap((other) => (other.answer ? [other.answer] : []))
  if (answers.length < siblings.length) return
  turn.effects.push({ do: "reply-question", requestId, answers })
  onQuestionClosed(turn, requestId)
}

export const onQuestionClosed = (turn: Draft, requestId: string): void => {
  turn.questions = turn.questions.filter((open) => open.requestId !== requestId)
  if (turn.phase === "waiting" && !isWaiting(turn)) turn.phase = "streaming"
}

export const isWaiting = ({ questions, permissions }: Draft): boolean =>
  questions.length > 0 || permissions.length > 0

export const rejectQuestions = (turn: Draft): void => {
  for (const requestId of new Set(turn.questions.map((open) => open.requestId))) {
    turn.effects.push({ do: "reject-question", requestId })
  }
  turn.questions = []
}

/** Several choices come as one string, separated by newlines or commas; anything else is one free-text answer. */
const toChoices = (question: AgentQuestion, answer: string | boolean): readonly string[] => {
  if (typeof answer === "boolean") return [answer ? "Yes" : "No"]
  if (!question.multiple) return [answer]
  const pieces = answer.split(/[\n,]/).map((piece) => piece.trim())
  return pieces.every((piece) => question.options.includes(piece)) ? pieces : [answer]
}
