/** Searches the web through Parallel. */
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
  description:
    "Search the web. Say in `objective` what you want to find out, and give a few queries of 3 to 6 words. Returns pages with excerpts.",
  input: z.object({
    objective: text("What you want to find out, in a sentence or two"),
    search_queries: texts("Queries of a few words each; the objective when absent").optional(),
    max_results: wholeNumber("How many pages at most; 10 when absent", {
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
    if (results.length === 0) return "Nothing was found. Try other words."
    return results
      .map(({ url, title, excerpts }) => [`# ${title ?? url}`, url, ...(excerpts ?? [])].join("\n"))
      .join("\n\n")
  },
})
