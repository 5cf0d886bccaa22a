/** Questions and permissions of the agent in a chat service: how they are written there, and how a message answers them. */
import type { PermissionReply } from "../../wire/permission.ts"
import { addPromptToConversation, answerFrame, answerQuestion } from "./prompt-lifecycle.ts"
import type { Prompt } from "./queue.ts"
import type { SessionContext } from "./session-context.ts"

export const questionText = (
  text: string,
  options: readonly string[],
  isMultiple: boolean,
): string => {
  if (options.length === 0) return text
  const hint = isMultiple ? "Reply with one or more of these:" : "Reply with one of these:"
  return [text, "", hint, ...options.map((option) => `- ${option}`)].join("\n")
}

const PERMISSION_HINT = "Reply yes (this time), always or no."

export const permissionText = (title: string, patterns: readonly string[]): string =>
  [`The agent asks for permission: ${title}`, ...patterns.map((one) => `- ${one}`), PERMISSION_HINT]
    .join("\n")
    .trim()

const replies: ReadonlyMap<string, PermissionReply> = new Map([
  ["yes", "once"],
  ["y", "once"],
  ["ok", "once"],
  ["allow", "once"],
  ["once", "once"],
  ["always", "always"],
  ["no", "reject"],
  ["n", "reject"],
  ["deny", "reject"],
  ["reject", "reject"],
])

const permissionReplyOf = (text: string): PermissionReply | undefined =>
  replies.get(
    text
      .trim()
      .toLowerCase()
      .replace(/[.!]+$/, ""),
  )

/** True when the queued prompt was the answer to what the agent waits for in its channel. Inside a transaction. */
export const answerFromChat = (
  context: SessionContext,
  prompt: Prompt,
  channel: string,
): boolean => {
  const { interactions, queue, chatSends } = context
  const permission = interactions.openPermission(channel)
  if (permission === undefined) return answerQuestion(context, prompt, channel)
  const reply = permissionReplyOf(prompt.content)
  if (reply === undefined) {
    // It stays a prompt, which waits for the turn: the person must learn what the turn waits for.
    chatSends.add({ id: `hint-${prompt.messageId}`, channel, text: PERMISSION_HINT })
    return false
  }
  const answered = { id: permission, kind: "permission", answer: reply } as const
  addPromptToConversation(context, prompt, channel)
  queue.finish(prompt.messageId, "done")
  interactions.answer(answered, prompt.authorName ?? "chat")
  context.sendToRunner(answerFrame(answered))
  return true
}
