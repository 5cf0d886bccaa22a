/** What a client asks of a chat-completions server, parsed once at the door. */
import { z } from "zod"

const message = z.looseObject({
  role: z.string(),
  content: z
    .union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() }))])
    .nullish(),
})

export const chatBody = z.looseObject({
  model: z.string(),
  messages: z.array(message),
  tools: z.array(z.looseObject({ function: z.looseObject({ name: z.string() }) })).default([]),
  stream: z.boolean().default(false),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
})

type ChatMessage = z.output<typeof message>

/** The part of a request that is the conversation: all that a pure answer needs. */
export type Conversation = Pick<z.output<typeof chatBody>, "messages" | "tools">

export interface ChatRequest extends z.output<typeof chatBody> {
  /** OpenCode names its session in a header; other clients need not. */
  readonly sessionId: string | undefined
  /** Aborted when the client goes away before the reply is over. */
  readonly signal: AbortSignal
}

export function textOf({ content }: ChatMessage): string {
  if (typeof content === "string") return content
  return (content ?? []).flatMap((part) => part.text ?? []).join("\n")
}

export function lastUserText({ messages }: Pick<Conversation, "messages">): string {
  const last = messages.findLast(({ role }) => role === "user")
  return last === undefined ? "" : textOf(last)
}
