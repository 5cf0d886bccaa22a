/** `answer`: a person's word on a question of the agent. One to a question that nobody asked changes nothing. */
import type { Verb } from "./command.ts"

export const answer: Verb<"answer"> = ({ channels, log }, { questionId, answer: said }) => {
  if (!channels.answer(questionId, said)) log.warn("answer.unknown-question", { questionId })
}
