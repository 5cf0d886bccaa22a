/** Questions of the agent. One request may contain several; it is replied to when all of them are answered. Pure. */
import type { AgentQuestion } from "../opencode/events/events.ts"
import { type Asker, callAddress, promptAddress, createMessage, type Draft, send } from "./draft.ts"

export interface OpenQuestion {
  readonly questionId: string
  readonly requestId: string
  readonly question: AgentQuestion
  readonly answer: readonly string[] | undefined
}

interface QuestionRequest extends Asker {
  readonly requestId: string
  readonly questions: readonly AgentQuestion[]
}

export const onQuestion = (turn: Draft, request: QuestionRequest): void => {
  const { requestId, questions } = request
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
    const choices = question.choices?.some(({ description }) => description !== undefined)
      ? { choices: question.choices.map((choice) => ({ ...choice })) }
      : {}
    const multiple = question.multiple ? { multiple: true } : {}
    const { text } = question
    send(turn, {
      type: "question",
      questionId,
      text,
      ...options,
      ...choices,
      ...multiple,
      ...callAddress(turn, request),
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
