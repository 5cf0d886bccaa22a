/** Reads web pages with Parallel. */
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
  description: "Read web pages as text: excerpts for an objective, or the full content.",
  input: z.object({
    urls: texts("URLs, at most 10").min(1, "must not be empty").max(10, {
      error: "must be at most 10",
    }),
    objective: text("What to look for; default: a summary").optional(),
    full_content: flag("true returns the full content").optional(),
  }),
  run: async ({ urls, objective, full_content = false }, context) => {
    const body = { urls, objective, advanced_settings: { full_content } }
    const reply = extracted.parse(await callParallel("POST", "/v1/extract", body, context))
    const pages = reply.results.map(({ url, title, excerpts, full_content: fullText }) =>
      [`# ${title ?? url}`, url, ...(fullText ? [fullText] : (excerpts ?? []))].join("\n"),
    )
    const failed = (reply.errors ?? []).map(({ url }) => `${url} could not be read.`)
    return [...pages, ...failed].join("\n\n")
  },
})
