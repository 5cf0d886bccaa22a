/** Researches a question in depth with Parallel. */
import { z } from "zod"
import { oneOf, text } from "../src/wire/operations/fields.ts"
import { renderValue } from "../src/wire/operations/render.ts"
import { runTask } from "./parallel-api.ts"
import { defineTool } from "./tool.ts"

export const parallelDeepResearch = defineTool({
  description:
    "Research a question on the web in depth. Takes minutes and returns a report with sources. For quick facts use parallel_web_search.",
  input: z.object({
    question: text("Question with all relevant context"),
    processor: oneOf("Effort, from quick to thorough; default: pro", [
      "base",
      "core",
      "pro",
      "ultra",
    ]).optional(),
  }),
  run: async ({ question, processor = "pro" }, context) => {
    const task = { input: question, processor, task_spec: { output_schema: { type: "text" } } }
    return renderValue((await runTask(task, context)).content)
  },
})
