/** Reads web pages through Parallel. */
import { z } from "zod"
import { flag, text, texts } from "../src/wire/operations/fields.ts"
import { callParallel } from "./parallel-api.ts"
import { defineTool } from "./tool.ts"

const extracted = z.looseObject({
  results: z.array(
    z.looseObject({
      url: z.string(),
      title: z.string().nullish(),
      excerpts: z.array(z.string()).nullish(),
      full_content: z.string().nullish(),
    }),
  ),
  errors: z.array(z.looseObject({ url: z.string() })).nullish(),
})

export const parallelWebExtract = defineTool({
  description: "Read web pages as text: the parts that matter for an objective, or all of it.",
  input: z.object({
    urls: texts("Addresses of the pages, at most 10").min(1, "must not be empty").max(10, {
      error: "must be at most 10",
    }),
    objective: text("What you want to find out; the whole gist when absent").optional(),
    full_content: flag("Whether to read the pages whole").optional(),
  }),
  run: async ({ urls, objective, full_content = false }, context) => {
    const body = { urls, objective, advanced_settings: { full_content } }
    const reply = extracted.parse(await callParallel("POST", "/v1/extract", body, context))
    const pages = reply.results.map(({ url, title, excerpts, full_content: whole }) =>
      [`# ${title ?? url}`, url, ...(whole ? [whole] : (excerpts ?? []))].join("\n"),
    )
    const failed = (reply.errors ?? []).map(({ url }) => `${url} could not be read.`)
    return [...pages, ...failed].join("\n\n")
  },
})
