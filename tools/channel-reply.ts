/** Writes to a chat outside, with an image from a file if there is one. */
import { z } from "zod"
import { flag, prose, text } from "../src/wire/operations/fields.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { base64, readImage } from "./image.ts"
import { defineTool } from "./tool.ts"

export const channelReply = defineTool({
  description:
    "Write to a chat outside that this session is connected to: a message, an image, or both. list_channels says which there are.",
  input: z
    .object({
      channel_type: text("What kind of channel it is, such as slack or telegram"),
      channel_id: text("Which one"),
      message: prose("The message").optional(),
      image_path: text("Path of an image to send").optional(),
      follow_up: flag("Whether more is to come").optional(),
    })
    .refine(({ message, image_path }) => Boolean(message) || image_path !== undefined, {
      error: "must not be empty when there is no image",
      path: ["message"],
    }),
  run: async (given, context) => {
    const image = given.image_path ? await readImage(given.image_path, context) : undefined
    await callOperation({
      operation: operationNamed("channel-reply"),
      input: {
        channelType: given.channel_type,
        channelId: given.channel_id,
        message: given.message,
        ...(image && { imageBase64: base64(image), imageMimeType: image.mime }),
        followUp: given.follow_up,
      },
      context,
    })
    return "Sent."
  },
})
