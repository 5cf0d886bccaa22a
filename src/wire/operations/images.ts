/** Images shown in the conversation. */
import { z } from "zod"
import { frameOperation } from "./define.ts"
import { ok, prose, text } from "./fields.ts"

export const operations = [
  frameOperation({
    name: "send-image",
    method: "POST",
    path: "/api/image",
    doc: "Show an image in the conversation.",
    tools: {
      none: "send_image and browser_screenshot are hand-written, because they read the image",
    },
    input: z.object({
      data: text("Image in base64"),
      description: prose("Caption").optional(),
      mimeType: text("MIME type of the image").optional(),
    }),
    output: ok,
    frame: "screenshot",
    toFields: (input) => ({ ...input, description: input.description ?? "" }),
    reply: { ok: true },
  }),
] as const
