/** Sends a message and an optional image file to an external chat. */
import { z } from "zod"
import { flag, prose, text } from "../src/wire/operations/fields.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { base64, readImage } from "./image.ts"
import { defineTool } from "./tool.ts"

export const channelReply = defineTool({
  description:
    "Send a message, an image or both to an external chat of this session (see list_channels).",
  input: z
    .object({
      channel_type: text("Type of the channel, such as slack"),
      channel_id: text("Id of the channel"),
      message: prose("Message text").optional(),
      image_path: text("Path of an image").optional(),
      follow_up: flag(
        "true if another message follows: the final text of the turn is sent too",
      ).optional(),
    })
    .refine(({ message, image_path }) => Boolean(message) || image_path !== undefined, {
      error: "must not be empty when there is no image",
      path: ["message"],
    }),
  run: async (args, context) => {
    const image = args.image_path ? await readImage(args.image_path, context) : undefined
    await callOperation({
      operation: operationNamed("channel-reply"),
      input: {
        channelType: args.channel_type,
        channelId: args.channel_id,
        message: args.message,
        ...(image && { imageBase64: base64(image), imageMimeType: image.mime }),
        followUp: args.follow_up,
      },
      context,
    })
    return "Sent."
  },
})
