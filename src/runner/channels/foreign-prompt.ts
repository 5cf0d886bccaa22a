/**
 * A foreign prompt: another client of OpenCode, such as its TUI, has posted it to the agent session of a channel. Its turn
 * is a turn of that channel: the hub sees it, and the channel's own prompts wait for its end.
 */
import type { ChannelAddress } from "../../wire/channel.ts"
import type { Inbound } from "../../wire/frames/index.ts"
import type { AgentClient } from "../opencode/client/client.ts"
import type { StoredMessage } from "../turn/turn.ts"

export interface ForeignPrompt {
  readonly userMessageId: string
  readonly text: string
}

/** The newest user message is among them, unless its turn has had more steps: then the steps name it. */
const LAST_MESSAGES = 100

/** Reads the newest foreign prompt of an agent session, or the one with this id. */
export const readForeignPrompt = async (
  client: AgentClient,
  agentSessionId: string,
  isOwn: (userMessageId: string) => boolean,
  userMessageId?: string,
): Promise<ForeignPrompt | undefined> =>
  findForeignPrompt(await client.messages(agentSessionId, LAST_MESSAGES), isOwn, userMessageId)

/**
 * Messages that OpenCode adds itself, for a compaction or to continue after one, are not prompts. Only the newest prompt
 * can be at work: one before it has ended, or is part of the same turn.
 */
export const findForeignPrompt = (
  messages: readonly StoredMessage[],
  isOwn: (userMessageId: string) => boolean,
  userMessageId?: string,
): ForeignPrompt | undefined => {
  const prompt = messages.findLast(
    ({ message, parts }) =>
      message.role === "user" &&
      (userMessageId === undefined || message.id === userMessageId) &&
      parts.some(isTyped),
  )
  if (!prompt || isOwn(prompt.message.id)) return undefined
  const texts = prompt.parts.flatMap((part) =>
    part.kind === "text" && !part.synthetic ? [part.text] : [],
  )
  return { userMessageId: prompt.message.id, text: texts.join("\n") }
}

const isTyped = (part: StoredMessage["parts"][number]): boolean =>
  part.kind === "text" ? !part.synthetic : part.kind === "other" && part.type === "file"

/** The job that stands for the prompt in the store. Its id shows where it comes from. */
export const foreignJob = (
  { userMessageId, text }: ForeignPrompt,
  address: ChannelAddress,
): Inbound<"prompt"> => ({
  type: "prompt",
  messageId: `opencode-${userMessageId}`,
  content: text,
  ...address,
})
