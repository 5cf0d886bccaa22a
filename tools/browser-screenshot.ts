/** Takes a screenshot of the current browser page for the model and the user. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { z } from "zod"
import { readImage, showImage, toAttachment } from "./image.ts"
import { runProgram } from "./programs.ts"
import { defineTool } from "./tool.ts"

export const browserScreenshot = defineTool({
  description:
    "Take a screenshot of the current browser page and show it to you and the user. Open a page first: `agent-browser --headed open <url>`.",
  input: z.object({
    filename: z
      .string({ error: "must be text" })
      .regex(/^[\w.-]{1,64}$/, "must be 1 to 64 letters, digits, dots, _ or -")
      .describe("File name; default: screenshot.png")
      .optional(),
  }),
  run: async ({ filename = "screenshot.png" }, context) => {
    const folder = await mkdtemp(join(tmpdir(), "screenshot-"))
    try {
      const path = join(folder, "page.png")
      await runProgram({
        program: "agent-browser",
        args: ["screenshot", path],
        signal: context.abort,
        timeoutMs: 30_000,
        ifMissing: "Tell the user that this sandbox has no browser.",
      })
      const image = await readImage(path, context)
      await showImage(image, filename, context)
      return {
        output: "The screenshot is attached and shown to the user.",
        attachments: [toAttachment(image, filename)],
      }
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
})
