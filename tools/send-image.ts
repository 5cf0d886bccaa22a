/** Shows an image to the user. */
import { basename } from "node:path"
import { z } from "zod"
import { prose, text } from "../src/wire/operations/fields.ts"
import { readImage, showImage, toAttachment } from "./image.ts"
import { defineTool } from "./tool.ts"

export const sendImage = defineTool({
  description: "Show an image to the user in the conversation, such as a chart or diagram.",
  input: z.object({
    source: text("Path, or http, https or data URL"),
    caption: prose("Caption").optional(),
  }),
  run: async ({ source, caption = "" }, context) => {
    const image = await readImage(source, context)
    await showImage(image, caption, context)
    const name = source.startsWith("data:") ? "image" : basename(source)
    return { output: "The image is shown to the user.", attachments: [toAttachment(image, name)] }
  },
})
