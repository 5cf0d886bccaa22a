/** Questions the agent asks: one request may hold several, and is answered when all of them are. Pure. */
import type { AgentQuestion } from "../agent/events.ts"

export interface OpenQuestion {
  readonly questionId: string
  readonly requestId: string
  readonly question: AgentQuestion
  readonly answer: readonly string[] | undefined
}

export const openQuestions = (
  requestId: string,
  questions: readonly AgentQuestion[],
): readonly OpenQuestion[] =>
  questions.map((question, index) => ({
    questionId: questions.length === 1 ? requestId : `${requestId}:${index}`,
    requestId,
    question,
    answer: undefined,
  }))

/** What the session agent sends instead of an answer when a person did not give one in time. */
const EXPIRED = "__expired__"

export type Answered =
  | { readonly type: "unknown" }
  | { readonly type: "waiting"; readonly questions: readonly OpenQuestion[] }
  | {
      readonly type: "reply"
      readonly requestId: string
      readonly answers: readonly (readonly string[])[]
      readonly questions: readonly OpenQuestion[]
    }
  | {
      readonly type: "reject"
      readonly requestId: string
      readonly questions: readonly OpenQuestion[]
    }

/** A second answer to the same question, or one to a question that is closed, changes nothing. */
export const answerQuestion = (
  questions: readonly OpenQuestion[],
  questionId: string,
  answer: string | boolean,
): Answered => {
  const index = questions.findIndex((open) => open.questionId === questionId)
  const open = questions[index]
  if (!open || open.answer !== undefined) return { type: "unknown" }
  const { requestId } = open
  if (answer === EXPIRED) {
    return { type: "reject", requestId, questions: closeRequest(questions, requestId) }
  }
  const answered = questions.with(index, { ...open, answer: toChoices(open.question, answer) })
  const siblings = answered.filter((other) => other.requestId === requestId)
  const answers = siblings.flatMap((other) => (other.answer ? [other.answer] : []))
  if (answers.length < siblings.length) return { type: "waiting", questions: answered }
  return { type: "reply", requestId, answers, questions: closeRequest(answered, requestId) }
}

export const closeRequest = (
  questions: readonly OpenQuestion[],
  requestId: string,
): readonly OpenQuestion[] => questions.filter((open) => open.requestId !== requestId)

/** Several choices come as one string, a line or a comma apart; anything else is one answer in free words. */
const toChoices = (question: AgentQuestion, answer: string | boolean): readonly string[] => {
  if (typeof answer === "boolean") return [answer ? "Yes" : "No"]
  if (!question.multiple) return [answer]
  const pieces = answer.split(/[\n,]/).map((piece) => piece.trim())
  return pieces.every((piece) => question.options.includes(piece)) ? pieces : [answer]
}
