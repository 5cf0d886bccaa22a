/** Deletes memories that are old or of little use, after a look at which those would be. */
import { z } from "zod"
import { flag, text, wholeNumber } from "../src/wire/operations/fields.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { defineTool } from "./tool.ts"

const DAY_MS = 86_400_000
const SCANNED = 200
const MOST_DELETES = 50

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

/** Every rule that is given must hold; the newest are kept whatever the rules say. Oldest first. */
export const choosePruned = (
  memories: readonly Memory[],
  { olderThanDays, relevanceAtMost, keepLatest = 0, maxDeletes = MOST_DELETES }: Rules,
  now: number,
): readonly Memory[] =>
  memories
    .toSorted((a, b) => bornAt(b) - bornAt(a))
    .slice(keepLatest)
    .filter(
      (entry) =>
        (olderThanDays === undefined || bornAt(entry) < now - olderThanDays * DAY_MS) &&
        (relevanceAtMost === undefined || (entry.relevance ?? 1) <= relevanceAtMost),
    )
    .toReversed()
    .slice(0, maxDeletes)

/** A memory without a date counts as new: what is not known to be old is not deleted for its age. */
const bornAt = ({ createdAt }: Memory): number => {
  const at = createdAt === undefined ? Number.NaN : new Date(createdAt).getTime()
  return Number.isNaN(at) ? Number.POSITIVE_INFINITY : at
}

export const memoryPrune = defineTool({
  description:
    "Delete memories that are old or of little use. By default it only says which ones it would delete; call it again with dryRun false to delete them. Give at least one of olderThanDays, relevanceAtMost and keepLatest.",
  input: z
    .object({
      category: text("Only memories of this category").optional(),
      query: text("Only memories that this finds").optional(),
      olderThanDays: wholeNumber("Only memories older than this", { min: 0 }).optional(),
      relevanceAtMost: z
        .number({ error: "must be a number" })
        .describe("Only memories of at most this relevance")
        .optional(),
      keepLatest: wholeNumber("How many of the newest to keep", { min: 0 }).optional(),
      maxScan: wholeNumber(`How many memories to look at; ${SCANNED} when absent`, {
        min: 1,
        max: 1000,
      }).optional(),
      maxDeletes: wholeNumber(`How many to delete at most; ${MOST_DELETES} when absent`, {
        min: 1,
        max: 500,
      }).optional(),
      dryRun: flag("false deletes; otherwise nothing is changed").optional(),
    })
    .refine(
      ({ olderThanDays, relevanceAtMost, keepLatest }) =>
        [olderThanDays, relevanceAtMost, keepLatest].some((rule) => rule !== undefined),
      { error: "or relevanceAtMost or keepLatest must be given", path: ["olderThanDays"] },
    ),
  run: async ({ category, query, maxScan = SCANNED, dryRun = true, ...rules }, context) => {
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
    for (const [place, { id }] of pruned.entries()) {
      context.metadata({ title: `Deleting ${place + 1} of ${pruned.length}` })
      const operation = operationNamed("memory-delete")
      await callOperation({ operation, input: { id }, context, part: id })
    }
    return [`${pruned.length} of ${memories.length} memories are deleted.`, ...lines].join("\n")
  },
})
