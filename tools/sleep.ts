/** Waits for some seconds and shows the remaining time. */
import { z } from "zod"
import { prose } from "../src/wire/operations/fields.ts"
import { defineTool } from "./tool.ts"
import { waitFor } from "./wait.ts"

const MAX_SECONDS = 3600
const UPDATE_INTERVAL_MS = 1000

const rule = `must be a number from 0 to ${MAX_SECONDS}`

export const sleep = defineTool({
  description:
    "Wait for some seconds, for example for a deployment. To wait for a session or the user, use wait_for_event.",
  input: z.object({
    seconds: z
      .number({ error: rule })
      .min(0, { error: rule })
      .max(MAX_SECONDS, { error: rule })
      .describe("Seconds to wait"),
    reason: prose("What you wait for").optional(),
  }),
  run: async ({ seconds, reason }, context) => {
    const endsAt = performance.now() + seconds * 1000
    for (;;) {
      const left = endsAt - performance.now()
      if (left <= 0) return `Waited ${seconds} seconds.`
      const title = reason ?? "Waiting"
      context.metadata({ title: `${title}: ${Math.ceil(left / 1000)} s left` })
      await waitFor(Math.min(left, UPDATE_INTERVAL_MS), context.abort)
    }
  },
})
