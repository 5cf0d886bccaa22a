/** Recognises the requests that OpenCode makes for itself: a conversation's title and its summary. */
import { shorten, withoutAttribution } from "./excerpt.ts"
import { type Conversation, lastUserText, textOf } from "./request.ts"

export const isTitleRequest = (conversation: Conversation): boolean =>
  isInternalRequest(conversation, "You are a title generator")

/** The message quotes the conversation, so commands in it must not be run. */
export const isSummaryRequest = (conversation: Conversation): boolean =>
  isInternalRequest(conversation, "You are a context summarization agent")

/** OpenCode expects one line of at most 50 characters. */
export function titleOf(conversation: Conversation): string {
  const words = withoutAttribution(lastUserText(conversation)).split(/\s+/).slice(0, 7)
  return shorten(words.join(" "), 50) || "Demo conversation"
}

/** OpenCode's agents for these have no tools and a system prompt with a fixed opening. */
const isInternalRequest = ({ messages, tools }: Conversation, opening: string): boolean =>
  tools.length === 0 &&
  messages.some((message) => message.role === "system" && textOf(message).startsWith(opening))
