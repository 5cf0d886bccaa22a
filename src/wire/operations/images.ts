/** Images that a session shows to its user. */
import { z } from "zod"
import { frameOperation } from "./define.ts"
import { ok, prose, text } from "./fields.ts"

export const operations = [
  frameOperation({
    name: "send-image",
    method: "POST",
    path: "/api/image",
    doc: "Show an image in the conversation.",
    tools: { none: "send_image and browser_screenshot are written by hand: they read the image" },
    input: z.object({
      data: text("The image, in base64"),
      description: prose("What it shows").optional(),
      mimeType: text("The image's type").optional(),
    }),
    output: ok,
    frame: "screenshot",
    toFields: (input) => ({ ...input, description: input.description ?? "" }),
    reply: { ok: true },
  }),
] as const
