/** Channels: the chats outside that a session is connected to. */
import { z } from "zod"
import { same, sessionOperation, wireRequest } from "./define.ts"
import { entity, flag, nothing, prose, success, text, together } from "./fields.ts"
import { listed } from "./render.ts"

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
    doc: "List the channels this session is connected to.",
    tools: [
      {
        name: "list_channels",
        description:
          "List the chats outside (Slack, Telegram, ...) that this session is connected to.",
        render: ({ channels }) => listed(channels, "channel", "channels"),
      },
    ],
    input: nothing,
    output: listChannels.result,
    request: listChannels,
    toFields: same,
    toReply: same,
  }),
  sessionOperation({
    name: "channel-reply",
    method: "POST",
    path: "/api/channel-reply",
    doc: "Write to a channel: a message, an image, or both.",
    tools: { none: "channel_reply is written by hand: it reads the image from a file" },
    input: z
      .object({
        channelType: text("What kind of channel it is"),
        channelId: text("Which one"),
        message: prose("The message").optional(),
        imageBase64: text("The image, in base64").optional(),
        imageMimeType: text("The image's type; given together with the image").optional(),
        followUp: flag("Whether more is to come").optional(),
      })
      .refine((input) => together(input.imageBase64, input.imageMimeType), {
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
    toReply: same,
  }),
] as const
