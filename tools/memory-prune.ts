/** Deletes old or irrelevant memories, after a dry run that lists them. */
import { z } from "zod"
import { flag, text, wholeNumber } from "../src/wire/operations/fields.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { defineTool } from "./tool.ts"

const DAY_MS = 86_400_000
const DEFAULT_SCANNED = 200
const DEFAULT_DELETES = 50

const memory = z.looseObject({
  id: z.string(),
  content: z.string().optional(),
  relevance: z.number().optional(),
  createdAt: z.union([z.string(), z.number()]).optional(),
})

export type Memory = z.output<typeof memory>

export interface Rules {
  readonly olderThanDays?: number | undefined
  readonly relevanceAtMost?: number | undefined
  readonly keepLatest?: number | undefined
  readonly maxDeletes?: number | undefined
}

/** A memory is deleted if it matches every given rule and is not among the `keepLatest` newest. Oldest first. */
export const choosePruned = (
  memories: readonly Memory[],
  { olderThanDays, relevanceAtMost, keepLatest = 0, maxDeletes = DEFAULT_DELETES }: Rules,
  now: number,
): readonly Memory[] =>
  memories
    .toSorted((a, b) => createdTime(b) - createdTime(a))
    .slice(keepLatest)
    .filter(
      (entry) =>
        (olderThanDays === undefined || createdTime(entry) < now - olderThanDays * DAY_MS) &&
        (relevanceAtMost === undefined || (entry.relevance ?? 1) <= relevanceAtMost),
    )
    .toReversed()
    .slice(0, maxDeletes)

/** A memory without a date counts as new, so it is never deleted for its age. */
const createdTime = ({ createdAt }: Memory): number => {
  const at = createdAt === undefined ? Number.NaN : new Date(createdAt).getTime()
  return Number.isNaN(at) ? Number.POSITIVE_INFINITY : at
}

export const memoryPrune = defineTool({
  description:
    "Delete old or irrelevant memories. By default only lists what it would delete; dryRun false deletes. Give at least one of olderThanDays, relevanceAtMost and keepLatest.",
  input: z
    .object({
      category: text("Only memories of this category").optional(),
      query: text("Only memories that match this search").optional(),
      olderThanDays: wholeNumber("Only memories older than this many days", { min: 0 }).optional(),
      relevanceAtMost: z
        .number({ error: "must be a number" })
        .describe("Only memories with at most this relevance")
        .optional(),
      keepLatest: wholeNumber("Number of newest memories to keep", { min: 0 }).optional(),
      maxScan: wholeNumber(`Maximum number to check; default: ${DEFAULT_SCANNED}`, {
        min: 1,
        max: 1000,
      }).optional(),
      maxDeletes: wholeNumber(`Maximum number to delete; default: ${DEFAULT_DELETES}`, {
        min: 1,
        max: 500,
      }).optional(),
      dryRun: flag("false deletes; default: true").optional(),
    })
    .refine(
      ({ olderThanDays, relevanceAtMost, keepLatest }) =>
        [olderThanDays, relevanceAtMost, keepLatest].some((rule) => rule !== undefined),
      { error: "or relevanceAtMost or keepLatest is required", path: ["olderThanDays"] },
    ),
  run: async ({ category, query, maxScan = DEFAULT_SCANNED, dryRun = true, ...rules }, context) => {
    const read = operationNamed("memory-read")
    const reply = await callOperation({
      operation: read,
      input: { category, query, limit: maxScan },
      context,
    })
    const { memories } = z.object({ memories: z.array(memory) }).parse(reply)
    const pruned = choosePruned(memories, rules, Date.now())
    const lines = pruned.map(({ id, content = "" }) => `${id}: ${content.slice(0, 80)}`)
    if (dryRun || pruned.length === 0) {
      return [`${pruned.length} of ${memories.length} memories would be deleted.`, ...lines].join(
        "\n",
      )
    }
    for (const [index, { id }] of pruned.entries()) {
      context.metadata({ title: `Deleting ${index + 1} of ${pruned.length}` })
      const operation = operationNamed("memory-delete")
      await callOperation({ operation, input: { id }, context, keySuffix: id })
    }
    return [`${pruned.length} of ${memories.length} memories deleted.`, ...lines].join("\n")
  },
})
