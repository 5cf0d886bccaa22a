/** Has Parallel research a question at length. */
import { z } from "zod"
import { oneOf, text } from "../src/wire/operations/fields.ts"
import { shown } from "../src/wire/operations/render.ts"
import { runTask } from "./parallel-api.ts"
import { defineTool } from "./tool.ts"

export const parallelDeepResearch = defineTool({
  description:
    "Have a question researched on the web at length; takes minutes and returns a report with sources. For a quick look use parallel_web_search.",
  input: z.object({
    question: text("The question, with everything that narrows it down"),
    processor: oneOf("How thorough: from quick to long", [
      "base",
      "core",
      "pro",
      "ultra",
    ]).optional(),
  }),
  run: async ({ question, processor = "pro" }, context) => {
    const task = { input: question, processor, task_spec: { output_schema: { type: "text" } } }
    return shown((await runTask(task, context)).content)
  },
})
