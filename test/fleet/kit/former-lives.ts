/** What a version without phases stores of a life. Its replicas may run beside those of this version. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { z } from "zod"

const [flag, number, text] = [z.boolean(), z.number(), z.string()]

/** How that version reads a row: one that does not fit stops its replicas. */
export const formerSchema = z.object({
  wanted: z.enum(["running", "asleep", "ended"]),
  phase: z.enum(["absent", "booting", "running", "paused", "ended"]),
  generation: number,
  ref: text.optional(),
  expiresAt: number.optional(),
  snapshot: z.object({ id: text, version: text.optional() }).optional(),
  missingSnapshots: z.array(text).optional(),
  pending: z
    .object({ number, call: z.looseObject({ do: text }), since: number, dirty: flag })
    .optional(),
  number,
  doubt: flag,
  unsure: flag,
  doomed: z.array(text),
  linked: flag,
  busy: flag,
  waits: flag.optional(),
  touched: flag,
  saved: flag,
  prepared: flag,
  preparedAt: number.optional(),
  hookFailures: number.optional(),
  replace: flag,
  deep: flag,
  rescued: flag,
  restarted: flag,
  failed: flag,
  failures: number,
  attempts: number,
  lastError: text.optional(),
  retryAt: number.optional(),
  bootBy: number.optional(),
  lookAt: number.optional(),
  idleAt: number.optional(),
  usedAt: number.optional(),
  pausedAt: number.optional(),
  unlinkedAt: number.optional(),
  idleMs: number.optional(),
})

interface FormerLife {
  readonly name: string
  /** As this version reads it. */
  readonly life: unknown
  /** As that version has written it. */
  readonly row: Readonly<Record<string, unknown>>
}

export const formerLives = readFileSync(join(import.meta.dir, "former-lives.ndjson"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as FormerLife)
