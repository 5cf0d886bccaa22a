/** The row of a session, as both databases return it. */
import { z } from "zod"
import { lifeSchema } from "../core/life.ts"
import { providerNames } from "../providers/contract.ts"
import type { SessionChange, StoredSession } from "./ports.ts"

const time = z.coerce.number().nullable()
const json = z.string().transform((text): unknown => JSON.parse(text))

const rowSchema = z.object({
  id: z.string(),
  tenant: z.string(),
  thread_key: z.string().nullable(),
  provider: z.enum(providerNames),
  environment: json.pipe(z.record(z.string(), z.string())),
  life: json.pipe(lifeSchema),
  rev: z.coerce.number(),
  caller: z.string().nullable(),
  call_until: time,
  due_at: time,
  created_at: z.coerce.number(),
  updated_at: z.coerce.number(),
})

export const readSession = (row: unknown): StoredSession => {
  const read = rowSchema.parse(row)
  return {
    id: read.id,
    tenant: read.tenant,
    threadKey: read.thread_key ?? undefined,
    provider: read.provider,
    environment: read.environment,
    life: read.life,
    rev: read.rev,
    caller: read.caller ?? undefined,
    callUntil: read.call_until ?? undefined,
    dueAt: read.due_at ?? undefined,
    createdAt: read.created_at,
    updatedAt: read.updated_at,
  }
}

export const changed = (
  session: StoredSession,
  change: SessionChange,
  at: number,
): StoredSession => ({
  ...session,
  ...change,
  rev: session.rev + 1,
  updatedAt: at,
})
