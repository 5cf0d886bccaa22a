/** How the prompts of a session ended, as its hub counts since the session exists. Pure. */
import { z } from "zod"

export const promptCounts = z.object({
  done: z.number(),
  failed: z.number(),
  /** Given to a runner again. */
  retried: z.number(),
  /** Agent sessions that were replaced by new ones. */
  replaced: z.number(),
})
export type PromptCounts = Readonly<z.output<typeof promptCounts>>

const each = (
  a: PromptCounts,
  b: PromptCounts,
  join: (a: number, b: number) => number,
): PromptCounts => ({
  done: join(a.done, b.done),
  failed: join(a.failed, b.failed),
  retried: join(a.retried, b.retried),
  replaced: join(a.replaced, b.replaced),
})

/** What was not counted before. An earlier report that arrives late adds nothing. */
export const gained = (before: PromptCounts, now: PromptCounts): PromptCounts =>
  each(before, now, (was, is) => Math.max(0, is - was))

export const highest = (before: PromptCounts, now: PromptCounts): PromptCounts =>
  each(before, now, Math.max)
