/** Channels: the external chats that a session is connected to. */
import { z } from "zod"
import { unchanged, sessionOperation, wireRequest } from "./define.ts"
import { entity, flag, noInput, prose, success, text, bothOrNeither } from "./fields.ts"
import { renderList } from "./render.ts"

const listChannels = wireRequest("list-channels", 15_000, {}, { channels: z.array(entity) })

const channelReply = wireRequest(
  "channel-reply",
  15_000,
  {
    channelType: z.string(),
    channelId: z.string(),
    message: z.string(),
    imageBase64: z.string().optional(),
    imageMimeType: z.string().optional(),
    followUp: z.boolean().optional(),
  },
  { success: z.boolean() },
)

export const requests = [listChannels, channelReply] as const

export const operations = [
  sessionOperation({
    name: "list-channels",
    method: "GET",
    path: "/api/channels",
    doc: "List the external chats that this session is connected to.",
    tools: [
      {
        name: "list_channels",
        description: "List the external chats (Slack, Telegram, ...) of this session.",
        render: ({ channels }) => renderList(channels, "channel", "channels"),
      },
    ],
    input: noInput,
    output: listChannels.result,
    request: listChannels,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sessionOperation({
    name: "channel-reply",
    method: "POST",
    path: "/api/channel-reply",
    doc: "Send a message, an image or both to a channel.",
    tools: { none: "channel_reply is hand-written, because it reads the image from a file" },
    input: z
      .object({
        channelType: text("Type of the channel, such as slack"),
        channelId: text("Id of the channel"),
        message: prose("Message text").optional(),
        imageBase64: text("Image in base64").optional(),
        imageMimeType: text("MIME type of the image; required with imageBase64").optional(),
        followUp: flag(
          "true if another message follows: the final text of the turn is sent too",
        ).optional(),
      })
      .refine((input) => bothOrNeither(input.imageBase64, input.imageMimeType), {
        error: "must be given together with imageMimeType, or not at all",
        path: ["imageBase64"],
      })
      .refine((input) => Boolean(input.message) || input.imageBase64 !== undefined, {
        error: "must not be empty when there is no image",
        path: ["message"],
      }),
    output: success,
    request: channelReply,
    toFields: (input) => ({ ...input, message: input.message ?? "" }),
    toReply: unchanged,
  }),
] as const
