/** Has Parallel fill in what is not known of a thing. */
import { z } from "zod"
import { oneOf, openObject } from "../src/wire/operations/fields.ts"
import { shown } from "../src/wire/operations/render.ts"
import { runTask } from "./parallel-api.ts"
import { defineTool } from "./tool.ts"

export const parallelDataEnrichment = defineTool({
  description:
    "Look up on the web what is not known of a thing: give what you know of it, and the fields that you want with a description each. Takes a minute or more.",
  input: z.object({
    data: openObject("What is known, such as {company: 'Example'}"),
    fields: z
      .record(z.string(), z.string(), { error: "must be an object of names and descriptions" })
      .describe("What is wanted: the name and the description of each field"),
    processor: oneOf("How thorough: from quick to long", [
      "lite",
      "base",
      "core",
      "pro",
    ]).optional(),
  }),
  run: async ({ data, fields, processor = "base" }, context) => {
    const properties = Object.fromEntries(
      Object.entries(fields).map(([name, description]) => [name, { type: "string", description }]),
    )
    const required = Object.keys(fields)
    const json_schema = { type: "object", properties, required, additionalProperties: false }
    const task_spec = { output_schema: { type: "json", json_schema } }
    return shown((await runTask({ input: data, processor, task_spec }, context)).content)
  },
})
