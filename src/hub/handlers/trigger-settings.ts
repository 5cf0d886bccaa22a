/** What a trigger is made of: its settings as they come in, as they are kept and as they are shown. */
import { z } from "zod"

export interface TriggerRow {
  id: string
  name: string
  type: string
  workflow: string | null
  session: string
  enabled: number
  config: string
  mapping: string
  next_at: number | null
  last_at: number | null
  created_at: number
}

const text = z.string().min(1)
const settings = z.discriminatedUnion("type", [
  z.looseObject({
    type: z.literal("schedule"),
    cron: text,
    timezone: text.optional(),
    prompt: text.optional(),
  }),
  z.looseObject({ type: z.literal("webhook"), secret: text.optional(), prompt: text.optional() }),
  z.looseObject({ type: z.literal("manual"), prompt: text.optional() }),
])
export type Settings = z.output<typeof settings>

export const made = z.object({
  name: text,
  workflowId: text.nullish(),
  enabled: z.boolean().default(true),
  config: settings,
  variableMapping: z.record(z.string(), z.unknown()).default({}),
})
export const changed = z.object({
  triggerId: text,
  name: text.optional(),
  workflowId: text.nullish(),
  enabled: z.boolean().optional(),
  config: settings.optional(),
  variableMapping: z.record(z.string(), z.unknown()).optional(),
})
export const listed = z.object({
  workflowId: text.optional(),
  type: text.optional(),
  enabled: z.boolean().optional(),
})
export const run = z.looseObject({
  triggerId: text,
  variables: z.record(z.string(), z.unknown()).optional(),
})

export const withoutSecret = (config: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(config).filter(([name]) => name !== "secret"))

export const withSecretOf = (config: Settings, before: Settings): Settings =>
  config.type === "webhook" && before.type === "webhook" && config.secret === undefined
    ? { ...config, secret: before.secret }
    : config

/** `{"pr": "pull_request.number"}`: a variable gets what lies at that path of the data, or the value itself. */
export const mapped = (mapping: Record<string, unknown>, data: unknown): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(mapping).map(([name, from]) => [
      name,
      typeof from === "string" ? (at(data, from.replace(/^\$\.?/, "")) ?? from) : from,
    ]),
  )

const at = (data: unknown, path: string): unknown =>
  path
    .split(".")
    .reduce<unknown>(
      (value, key) =>
        typeof value === "object" && value !== null && Object.hasOwn(value, key)
          ? (value as Record<string, unknown>)[key]
          : undefined,
      data,
    )
