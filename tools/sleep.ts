/** Waits for some seconds, and shows how many are left. */
import { z } from "zod"
import { prose } from "../src/wire/operations/fields.ts"
import { defineTool } from "./tool.ts"
import { waitFor } from "./wait.ts"

const LONGEST_SECONDS = 3600
const SHOWN_EVERY_MS = 1000

const rule = `must be a number from 0 to ${LONGEST_SECONDS}`

export const sleep = defineTool({
  description:
    "Wait for some seconds, for example until a deployment is up. To wait for another session or for a person, use wait_for_event instead: it costs nothing.",
  input: z.object({
    seconds: z
      .number({ error: rule })
      .min(0, { error: rule })
      .max(LONGEST_SECONDS, { error: rule })
      .describe("How long to wait"),
    reason: prose("What you wait for").optional(),
  }),
  run: async ({ seconds, reason }, context) => {
    const until = performance.now() + seconds * 1000
    for (;;) {
      const left = until - performance.now()
      if (left <= 0) return `${seconds} seconds are over.`
      const title = reason ?? "Waiting"
      context.metadata({ title: `${title}: ${Math.ceil(left / 1000)} s left` })
      await waitFor(Math.min(left, SHOWN_EVERY_MS), context.abort)
    }
  },
})
