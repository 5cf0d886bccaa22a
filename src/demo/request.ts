/** The schema of a chat-completions request, and helpers to read it. */
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

/** The part of a request that determines the demo model's reply. */
export type Conversation = Pick<z.output<typeof chatBody>, "messages" | "tools">

export interface ChatRequest extends z.output<typeof chatBody> {
  /** OpenCode's agent session id, from a header; other clients send none. */
  readonly agentSessionId: string | undefined
  /** Aborts when the client disconnects before the reply is complete. */
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
