/** Takes a picture of the page that the browser shows, for the model and for the user. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { z } from "zod"
import { attached, readImage, showImage } from "./image.ts"
import { runProgram } from "./programs.ts"
import { defineTool } from "./tool.ts"

export const browserScreenshot = defineTool({
  description:
    "Take a screenshot of the page that the browser shows. You see it, and so does the user. Open a page with `agent-browser --headed open <url>` first.",
  input: z.object({
    filename: z
      .string({ error: "must be text" })
      .regex(/^[\w.-]{1,64}$/, "must be 1 to 64 letters, digits, dots, _ or -")
      .describe("What to call the picture; screenshot.png when absent")
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
        missing: "Tell the user that there is no browser here.",
      })
      const image = await readImage(path, context)
      await showImage(image, filename, context)
      return {
        output: "The screenshot is attached; the user sees it too.",
        attachments: [attached(image, filename)],
      }
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
})
