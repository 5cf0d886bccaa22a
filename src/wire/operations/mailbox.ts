/** Notifications to and from sessions, users and handles. */
import { z } from "zod"
import { sessionOperation, unchanged, wireRequest } from "./define.ts"
import { entity, queryNumber, text } from "./fields.ts"
import { renderList } from "./render.ts"

const mailboxSend = wireRequest(
  "mailbox-send",
  15_000,
  {
    toSessionId: z.string().optional(),
    toUserId: z.string().optional(),
    toHandle: z.string().optional(),
    messageType: z.string().optional(),
    content: z.string(),
    contextSessionId: z.string().optional(),
    contextTaskId: z.string().optional(),
    replyToId: z.string().optional(),
  },
  { messageId: z.string() },
)

const mailboxCheck = wireRequest(
  "mailbox-check",
  15_000,
  { limit: z.int().optional(), after: z.string().optional() },
  { messages: z.array(entity) },
)

export const requests = [mailboxSend, mailboxCheck] as const

export const operations = [
  sessionOperation({
    name: "mailbox-send",
    method: "POST",
    path: "/api/notifications/emit",
    doc: "Send a notification to one session, user or handle.",
    tools: [
      {
        name: "mailbox_send",
        description: "Put a message into the mailbox of one session, user or handle.",
        render: ({ messageId }) => `Sent as ${messageId}.`,
      },
      {
        name: "emit_notification",
        description: "Notify one session, user or handle of an event.",
        render: ({ notificationId }) => `Notified (${notificationId}).`,
      },
    ],
    input: z
      .object({
        to_session_id: text("Receiver: session id").optional(),
        to_user_id: text("Receiver: user id").optional(),
        to_handle: text("Receiver: handle").optional(),
        content: text("Message text"),
        message_type: text("Type of the notification").optional(),
        context_session_id: text("Session that it is about").optional(),
        context_task_id: text("Task that it is about").optional(),
        reply_to_id: text("Notification that it replies to").optional(),
      })
      .refine(hasOneReceiver, {
        error: "give exactly one of to_session_id, to_user_id and to_handle",
        path: ["to_session_id"],
      }),
    output: z.object({ notificationId: z.string(), messageId: z.string() }),
    request: mailboxSend,
    toFields: (input) => ({
      toSessionId: input.to_session_id,
      toUserId: input.to_user_id,
      toHandle: input.to_handle,
      messageType: input.message_type,
      content: input.content,
      contextSessionId: input.context_session_id,
      contextTaskId: input.context_task_id,
      replyToId: input.reply_to_id,
    }),
    toReply: ({ messageId }) => ({ notificationId: messageId, messageId }),
  }),
  sessionOperation({
    name: "mailbox-check",
    method: "GET",
    path: "/api/notifications",
    doc: "Read the notifications of this session.",
    tools: [
      {
        name: "mailbox_check",
        description: "Read the notifications and messages sent to this session.",
        render: ({ notifications }) => renderList(notifications, "notification", "notifications"),
      },
    ],
    input: z.object({
      limit: queryNumber("Maximum number", { min: 1 }).optional(),
      after: text("Only later ones: a notification id or an ISO time").optional(),
    }),
    output: z.object({ notifications: z.array(entity) }),
    request: mailboxCheck,
    toFields: unchanged,
    toReply: ({ messages }) => ({ notifications: messages }),
  }),
] as const

function hasOneReceiver(input: {
  readonly to_session_id?: string | undefined
  readonly to_user_id?: string | undefined
  readonly to_handle?: string | undefined
}): boolean {
  const receivers = [input.to_session_id, input.to_user_id, input.to_handle]
  return receivers.filter((receiver) => receiver !== undefined).length === 1
}
