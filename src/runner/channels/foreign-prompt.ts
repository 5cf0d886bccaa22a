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
  /** The next prompt in the agent session, if there is one: then the answer to this one is complete. */
  readonly endsBefore?: string
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

/** Reads the oldest foreign prompt of an agent session that is not shown yet. */
export const readMissedPrompt = async (
  client: AgentClient,
  agentSessionId: string,
  isKnown: (userMessageId: string) => boolean,
): Promise<ForeignPrompt | undefined> =>
  findMissedPrompt(await client.messages(agentSessionId, LAST_MESSAGES), isKnown)

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
  return prompt && !isOwn(prompt.message.id) ? promptOf(prompt) : undefined
}

/**
 * The oldest answered prompt that no job has posted or follows. Messages before the first known one are the history of the
 * agent session from before it belonged to the channel, or so old that the jobs are deleted.
 */
export const findMissedPrompt = (
  messages: readonly StoredMessage[],
  isKnown: (userMessageId: string) => boolean,
): ForeignPrompt | undefined => {
  const isPrompt = ({ message, parts }: StoredMessage) =>
    message.role === "user" && parts.some(isTyped)
  const first = messages.findIndex((one) => isPrompt(one) && isKnown(one.message.id))
  if (first === -1) return undefined
  const answered = new Set(messages.map(({ message }) => message.parentId))
  const place = messages.findIndex(
    (one, index) =>
      index > first && isPrompt(one) && answered.has(one.message.id) && !isKnown(one.message.id),
  )
  const missed = messages[place]
  if (!missed) return undefined
  // After a compaction OpenCode may repeat the prompt: that copy is part of the same turn.
  const next = messages.find(
    (one, index) =>
      index > place && isPrompt(one) && messages[index - 1]?.message.isSummary !== true,
  )
  return { ...promptOf(missed), ...(next && { endsBefore: next.message.id }) }
}

const promptOf = ({ message, parts }: StoredMessage): ForeignPrompt => {
  const texts = parts.flatMap((part) =>
    part.kind === "text" && !part.synthetic ? [part.text] : [],
  )
  return { userMessageId: message.id, text: texts.join("\n") }
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
