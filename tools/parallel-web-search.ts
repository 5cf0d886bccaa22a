/** Searches the web with Parallel. */
import { z } from "zod"
import { text, texts, wholeNumber } from "../src/wire/operations/fields.ts"
import { callParallel } from "./parallel-api.ts"
import { defineTool } from "./tool.ts"

const found = z.looseObject({
  results: z.array(
    z.looseObject({
      url: z.string(),
      title: z.string().nullish(),
      excerpts: z.array(z.string()).nullish(),
    }),
  ),
})

export const parallelWebSearch = defineTool({
  description: "Search the web. Returns pages with excerpts.",
  input: z.object({
    objective: text("What to find out, in one or two sentences"),
    search_queries: texts("A few queries of 3 to 6 words; default: the objective").optional(),
    max_results: wholeNumber("Maximum number of pages; default: 10", {
      min: 1,
      max: 40,
    }).optional(),
  }),
  run: async ({ objective, search_queries, max_results = 10 }, context) => {
    const body = {
      objective,
      search_queries: search_queries?.length ? search_queries : [objective.slice(0, 200)],
      advanced_settings: { max_results },
    }
    const { results } = found.parse(await callParallel("POST", "/v1/search", body, context))
    if (results.length === 0) return "No results. Try other queries."
    return results
      .map(({ url, title, excerpts }) => [`# ${title ?? url}`, url, ...(excerpts ?? [])].join("\n"))
      .join("\n\n")
  },
})
