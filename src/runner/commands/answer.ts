/** `answer`: a person's word on a question of the agent. One to a question that nobody asked changes nothing. */
import type { Command } from "./command.ts"

export const answer: Command<"answer"> = ({ channels, log }, { questionId, answer: said }) => {
  if (!channels.answer(questionId, said)) log.warn("answer.unknown-question", { questionId })
}
