/** Counters of a session that a control plane reads: how its prompts ended, and how often its agent lost its memory. */
import { z } from "zod"
import { readJson } from "../../lib/json.ts"
import type { NamedValues } from "./named-values.ts"
import type { SessionActivity } from "./ports.ts"
import type { Queue } from "./queue.ts"

type Counts = SessionActivity["counts"]

const counts = z.object({
  done: z.number(),
  failed: z.number(),
  retried: z.number(),
  replaced: z.number(),
})
const none: Counts = { done: 0, failed: 0, retried: 0, replaced: 0 }

export const readCounts = (values: NamedValues): Counts => {
  const text = values.getPrivate("counts")
  return text === undefined ? none : readJson(counts, text)
}

export const addCount = (values: NamedValues, name: keyof Counts, amount = 1): void => {
  const now = readCounts(values)
  values.setPrivate("counts", JSON.stringify({ ...now, [name]: now[name] + amount }))
}

/** A queue that counts the ends of prompts, in the transaction that ends them. */
export const countingQueue = (queue: Queue, values: NamedValues): Queue => ({
  ...queue,
  finish: (id, status) => {
    const isEnded = queue.finish(id, status)
    if (isEnded && status !== "canceled") addCount(values, status)
    return isEnded
  },
  requeueLost: (active) => {
    const lost = queue.requeueLost(active)
    if (lost.length > 0) addCount(values, "retried", lost.length)
    return lost
  },
})
