/** Looks up missing fields of an object on the web with Parallel. */
import { z } from "zod"
import { oneOf, openObject } from "../src/wire/operations/fields.ts"
import { renderValue } from "../src/wire/operations/render.ts"
import { runTask } from "./parallel-api.ts"
import { defineTool } from "./tool.ts"

export const parallelDataEnrichment = defineTool({
  description: "Look up missing data about an object on the web. Takes a minute or more.",
  input: z.object({
    data: openObject("Known data, such as {company: 'Example'}"),
    fields: z
      .record(z.string(), z.string(), { error: "must be an object of names and descriptions" })
      .describe("Wanted fields: name to description"),
    processor: oneOf("Effort, from quick to thorough; default: base", [
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
    return renderValue((await runTask({ input: data, processor, task_spec }, context)).content)
  },
})
