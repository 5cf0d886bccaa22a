/** Shows an image to the user. */
import { basename } from "node:path"
import { z } from "zod"
import { prose, text } from "../src/wire/operations/fields.ts"
import { attached, readImage, showImage } from "./image.ts"
import { defineTool } from "./tool.ts"

export const sendImage = defineTool({
  description: "Show an image to the user in the conversation: a chart, a diagram, a screenshot.",
  input: z.object({
    source: text("Path of the image, or its http, https or data address"),
    caption: prose("What it shows").optional(),
  }),
  run: async ({ source, caption = "" }, context) => {
    const image = await readImage(source, context)
    await showImage(image, caption, context)
    const name = source.startsWith("data:") ? "image" : basename(source)
    return { output: "The image is shown to the user.", attachments: [attached(image, name)] }
  },
})
