/** `answer`: a person's answer to a question of the agent. An answer to an unknown question is ignored. */
import type { Command } from "./command.ts"

export const answer: Command<"answer"> = ({ channels, log }, { questionId, answer: text }) => {
  if (!channels.answer(questionId, text)) log.warn("answer.unknown-question", { questionId })
}
