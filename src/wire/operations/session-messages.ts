/** Messages between sessions: send, read, copy. */
import { z } from "zod"
import { unchanged, sessionOperation, wireRequest } from "./define.ts"
import { flag, ok, queryNumber, text, wholeNumber } from "./fields.ts"
import { renderMessages } from "./render.ts"

const sessionMessage = wireRequest(
  "session-message",
  15_000,
  { targetSessionId: z.string(), content: z.string(), interrupt: z.boolean().optional() },
  { success: z.boolean() },
)

const message = z.object({
  role: z.string(),
  content: z.string(),
  createdAt: z.union([z.string(), z.number()]),
})

const pageOfTarget = {
  targetSessionId: z.string(),
  limit: z.int().optional(),
  after: z.string().optional(),
}

const sessionMessages = wireRequest("session-messages", 15_000, pageOfTarget, {
  messages: z.array(message),
})

const forwardMessages = wireRequest("forward-messages", 15_000, pageOfTarget, {
  count: z.int(),
  sourceSessionId: z.string(),
})

export const requests = [sessionMessage, sessionMessages, forwardMessages] as const

const after = text("Only later messages: a message id or an ISO time").optional()

export const operations = [
  sessionOperation({
    name: "send-message",
    method: "POST",
    path: "/api/session-message",
    doc: "Send a message to another session.",
    tools: [
      {
        name: "send_message",
        description:
          "Send a message to another session, where it arrives as a prompt. Does not wait for a reply.",
        render: () => "Message sent.",
      },
    ],
    input: z.object({
      sessionId: text("Receiving session"),
      content: text("Message text"),
      interrupt: flag("true interrupts the current turn of that session").optional(),
    }),
    output: ok,
    request: sessionMessage,
    toFields: ({ sessionId, ...rest }) => ({ targetSessionId: sessionId, ...rest }),
    toReply: (result) => ({ ok: result.success }),
  }),
  sessionOperation({
    name: "read-messages",
    method: "GET",
    path: "/api/session-messages",
    doc: "Read the messages of another session.",
    tools: [
      {
        name: "read_messages",
        description: "Read the messages of another session.",
        render: ({ messages }) => renderMessages(messages),
      },
    ],
    input: z.object({
      sessionId: text("Session to read"),
      limit: queryNumber("Maximum number", { min: 1 }).optional(),
      after,
    }),
    output: sessionMessages.result,
    request: sessionMessages,
    toFields: ({ sessionId, ...rest }) => ({ targetSessionId: sessionId, ...rest }),
    toReply: unchanged,
  }),
  sessionOperation({
    name: "forward-messages",
    method: "POST",
    path: "/api/forward-messages",
    doc: "Copy messages of another session into this conversation.",
    tools: [
      {
        name: "forward_messages",
        description: "Copy messages of another session into this conversation for the user.",
        render: ({ count }) => `${count} messages copied into this conversation.`,
      },
    ],
    input: z.object({
      sessionId: text("Session to copy from"),
      limit: wholeNumber("Maximum number", { min: 1 }).optional(),
      after,
    }),
    output: forwardMessages.result,
    request: forwardMessages,
    toFields: ({ sessionId, ...rest }) => ({ targetSessionId: sessionId, ...rest }),
    toReply: unchanged,
  }),
] as const
