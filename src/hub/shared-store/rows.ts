/**
 * The rows of the shared tables. Every row that is read passes its schema, which also parses the JSON columns, so that
 * a damaged database fails here with the column's name.
 */
import { z } from "zod"
import { one, type Sql, type SqlValue } from "../session/ports.ts"

const text = z.string()
const optionalText = z.string().nullable()
const time = z.number()
const optionalTime = z.number().nullable()
/** SQLite has no booleans. */
const flag = z.number().transform((value) => value === 1)
const record = z.record(z.string(), z.unknown())

/** A TEXT column that contains JSON. */
const json = <Schema extends z.ZodType>(schema: Schema) =>
  text
    .transform((value, context): unknown => {
      try {
        return JSON.parse(value)
      } catch {
        context.addIssue({ code: "custom", message: "is not JSON" })
        return z.NEVER
      }
    })
    .pipe(schema)

/** NULL becomes undefined, because the JSON itself may be null. */
const optionalJson = <Schema extends z.ZodType>(schema: Schema) =>
  z.union([z.null().transform(() => undefined), json(schema)])

export const notification = z.object({
  id: text,
  fromSessionId: text,
  messageType: text,
  content: text,
  createdAt: time,
  toSessionId: text.optional(),
  toUserId: text.optional(),
  toHandle: text.optional(),
})
export type Notification = z.output<typeof notification>

export const requestResultRow = z.object({ result: json(record) })

export const memoryRow = z.object({
  place: z.number(),
  id: text,
  category: text,
  content: text,
  session: text,
  created_at: time,
})
export type MemoryRow = z.output<typeof memoryRow>

export const taskRow = z.object({
  id: text,
  title: text,
  description: optionalText,
  status: text,
  session: optionalText,
  created_by: text,
  parent: optionalText,
  blocked_by: json(z.array(text)),
  result: optionalText,
  created_at: time,
  updated_at: time,
})
export type TaskRow = z.output<typeof taskRow>

export const mailRow = z.object({
  place: z.number(),
  id: text,
  from_session: text,
  to_user: optionalText,
  to_handle: optionalText,
  type: text,
  content: text,
  context_session: optionalText,
  context_task: optionalText,
  reply_to: optionalText,
  created_at: time,
})

export const handleRow = z.object({ session: text })

export const placeRow = mailRow.pick({ place: true })

export const workflowRow = z.object({
  id: text,
  slug: text,
  name: text,
  description: optionalText,
  version: text,
  enabled: flag,
  tags: json(z.array(text)),
  data: json(z.unknown()),
  hash: text,
  created_at: time,
  updated_at: time,
})
export type WorkflowRow = z.output<typeof workflowRow>

export const workflowVersionRow = z.object({
  hash: text,
  version: text,
  source: text,
  notes: optionalText,
  session: text,
  at: time,
})

export const workflowDataRow = workflowRow.pick({ data: true })

export const proposalRow = z.object({
  id: text,
  workflow: text,
  base_hash: text,
  proposal: json(record),
  diff: optionalText,
  execution: optionalText,
  session: text,
  status: z.enum(["pending", "approved", "rejected", "applied"]),
  notes: optionalText,
  expires_at: optionalText,
  created_at: time,
})
export type ProposalRow = z.output<typeof proposalRow>

export const executionRow = z.object({
  id: text,
  workflow: text,
  hash: text,
  session: text,
  trigger_id: optionalText,
  status: z.enum(["running", "waiting_approval", "completed", "failed", "cancelled"]),
  variables: json(record),
  steps: json(z.array(z.unknown())),
  output: optionalJson(z.unknown()),
  error: optionalText,
  approval: optionalJson(z.looseObject({ resumeToken: text })),
  started_at: time,
  ended_at: optionalTime,
})
export type ExecutionRow = z.output<typeof executionRow>

const nonEmpty = z.string().min(1)
/** What fires a trigger, as a caller sends it and as the `config` column stores it. */
export const triggerConfig = z.discriminatedUnion("type", [
  z.looseObject({
    type: z.literal("schedule"),
    cron: nonEmpty,
    timezone: nonEmpty.optional(),
    prompt: nonEmpty.optional(),
  }),
  z.looseObject({
    type: z.literal("webhook"),
    secret: nonEmpty.optional(),
    /** In a stored row, instead of the secret. */
    secretHash: nonEmpty.optional(),
    prompt: nonEmpty.optional(),
  }),
  z.looseObject({ type: z.literal("manual"), prompt: nonEmpty.optional() }),
])
export type TriggerConfig = z.output<typeof triggerConfig>

export const triggerRow = z.object({
  id: text,
  name: text,
  type: text,
  workflow: optionalText,
  session: text,
  enabled: flag,
  config: json(triggerConfig),
  mapping: json(record),
  next_at: optionalTime,
  last_at: optionalTime,
  created_at: time,
})
export type TriggerRow = z.output<typeof triggerRow>

export const nextTriggerRow = z.object({ at: optionalTime })

export const selectAll = <Schema extends z.ZodType>(
  sql: Sql,
  schema: Schema,
  query: string,
  ...values: readonly SqlValue[]
): readonly z.output<Schema>[] =>
  sql.all<unknown>(query, ...values).map((row) => readRow(schema, row))

export const selectOne = <Schema extends z.ZodType>(
  sql: Sql,
  schema: Schema,
  query: string,
  ...values: readonly SqlValue[]
): z.output<Schema> | undefined => one(selectAll(sql, schema, query, ...values))

/** Names the column and never its value, which may be a secret. */
export const readRow = <Schema extends z.ZodType>(
  schema: Schema,
  row: unknown,
): z.output<Schema> => {
  const parsed = schema.safeParse(row)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new Error(
    `a row of the shared store is invalid: ${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}`,
  )
}
