/** The requests that OpenCode makes for itself: a title for a conversation, and its summary. */
import { shorten, withoutAttribution } from "./excerpt.ts"
import { type Conversation, lastUserText, textOf } from "./request.ts"

export const isTitleRequest = (conversation: Conversation): boolean =>
  isInternalRequest(conversation, "You are a title generator")

/** Its only message quotes the conversation, so the words in it are not meant for the model. */
export const isSummaryRequest = (conversation: Conversation): boolean =>
  isInternalRequest(conversation, "You are a context summarization agent")

/** OpenCode wants one line of at most fifty characters. */
export function titleOf(conversation: Conversation): string {
  const words = withoutAttribution(lastUserText(conversation)).split(/\s+/).slice(0, 7)
  return shorten(words.join(" "), 50) || "Demo conversation"
}

/** The agents for these have no tools, and a system prompt that opens by naming their job. */
const isInternalRequest = ({ messages, tools }: Conversation, opening: string): boolean =>
  tools.length === 0 &&
  messages.some((message) => message.role === "system" && textOf(message).startsWith(opening))
