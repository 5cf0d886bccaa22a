/** A workflow as it is written -> its compiled form: every step checked and named, hashed as a whole. */
import { createHash } from "node:crypto"
import { z } from "zod"

interface Common {
  readonly id: string
  readonly name?: string | undefined
}

export type Step = Common &
  (
    | {
        readonly type: "bash"
        readonly command: string
        readonly cwd?: string | undefined
        readonly timeoutMs: number
        readonly outputVariable?: string | undefined
      }
    | {
        readonly type: "tool"
        readonly tool: string
        readonly arguments: Readonly<Record<string, unknown>>
      }
    | {
        readonly type: "agent"
        readonly goal: string
        readonly context?: string | undefined
        readonly model?: string | undefined
      }
    | {
        readonly type: "agent_message"
        readonly content: string
        readonly interrupt: boolean
        readonly awaitResponse: boolean
        readonly awaitTimeoutMs?: number | undefined
      }
    | { readonly type: "approval"; readonly prompt: string; readonly items: readonly unknown[] }
    | {
        readonly type: "conditional"
        readonly condition: boolean | { readonly variable: string; readonly equals: unknown }
        readonly then: readonly Step[]
        readonly else: readonly Step[]
      }
    | { readonly type: "parallel"; readonly steps: readonly Step[] }
    | {
        readonly type: "loop"
        readonly steps: readonly Step[]
        /** A list, or the name of a variable that holds one. */
        readonly over?: string | readonly unknown[] | undefined
        readonly times?: number | undefined
        readonly itemVariable: string
        readonly maxIterations: number
      }
    | {
        readonly type: "subworkflow"
        readonly workflow?: { readonly steps: readonly Step[] } | undefined
        readonly workflowId?: string | undefined
        readonly variables: Readonly<Record<string, unknown>>
      }
  )

export type StepOf<Type extends Step["type"]> = Extract<Step, { type: Type }>

export interface Workflow {
  readonly steps: readonly Step[]
  /** `sha256:` and the hash of the definition with its ids filled in, whatever the order of its keys. */
  readonly hash: string
}

/** What is wrong with a definition, a line each, with the place of it. */
class WorkflowError extends Error {
  override readonly name = "WorkflowError"
}

export const compile = (definition: unknown): Workflow => {
  const named = withIds(definition)
  const parsed = workflow.safeParse(named)
  if (!parsed.success) throw new WorkflowError(parsed.error.issues.map(problemOf).join("\n"))
  const twice = firstTwice(parsed.data.steps)
  if (twice !== undefined) throw new WorkflowError(`two steps have the id ${twice}`)
  const hash = createHash("sha256").update(canonical(named)).digest("hex")
  return { steps: parsed.data.steps, hash: `sha256:${hash}` }
}

const DEFAULT_TIMEOUT_MS = 120_000
const MOST_TIMEOUT_MS = 600_000
const DEFAULT_ITERATIONS = 100

const text = z.string("must be a text").min(1, "must not be empty")
const name = z
  .string("must be a name")
  .regex(/^[\w-]+$/, "must be a name of letters, digits, _ and -")
const wholeNumber = z.int("must be a whole number").min(0, "must not be negative")
const values = z.record(z.string(), z.unknown(), "must be an object")
const common = { id: name, name: z.string("must be a text").optional() }
const steps = z.lazy(() => z.array(step, "must be a list of steps"))

const bash = z.object({
  ...common,
  type: z.literal("bash"),
  command: text,
  cwd: text.optional(),
  timeoutMs: wholeNumber
    .min(1, "must be at least 1")
    .max(MOST_TIMEOUT_MS, `must be at most ${MOST_TIMEOUT_MS}`)
    .default(DEFAULT_TIMEOUT_MS),
  outputVariable: name.optional(),
})
const tool = z.object({
  ...common,
  type: z.literal("tool"),
  tool: text,
  arguments: values.default({}),
})
const agent = z.object({
  ...common,
  type: z.literal("agent"),
  goal: text,
  context: z.string("must be a text").optional(),
  model: text.optional(),
})
const timeout = wholeNumber.min(1000, "must be at least 1000").optional()
const agentMessage = z
  .object({
    ...common,
    type: z.literal("agent_message"),
    content: text.optional(),
    message: text.optional(),
    goal: text.optional(),
    interrupt: z.boolean().default(false),
    await_response: z.boolean().optional(),
    awaitResponse: z.boolean().optional(),
    await_timeout_ms: timeout,
    awaitTimeoutMs: timeout,
  })
  .refine(({ content, message, goal }) => (content ?? message ?? goal) !== undefined, {
    error: "is missing",
    path: ["content"],
  })
const approval = z.object({
  ...common,
  type: z.literal("approval"),
  prompt: z.string("must be a text").default("Go on?"),
  items: z.array(z.unknown(), "must be a list").default([]),
})
const conditional = z.object({
  ...common,
  type: z.literal("conditional"),
  condition: z.union([z.boolean(), z.object({ variable: text, equals: z.json() })], {
    error: "must be true, false or {variable, equals}",
  }),
  then: steps.default([]),
  else: steps.default([]),
})
const parallel = z.object({ ...common, type: z.literal("parallel"), steps })
const loop = z
  .object({
    ...common,
    type: z.literal("loop"),
    steps,
    over: z
      .union([text, z.array(z.unknown())], { error: "must be a list or the name of a variable" })
      .optional(),
    times: wholeNumber.optional(),
    itemVariable: name.default("item"),
    maxIterations: wholeNumber.default(DEFAULT_ITERATIONS),
  })
  .refine(({ over, times }) => (over === undefined) !== (times === undefined), {
    error: "needs either over or times",
  })
const subworkflow = z
  .object({
    ...common,
    type: z.literal("subworkflow"),
    workflow: z.lazy(() => workflow).optional(),
    workflowId: text.optional(),
    variables: values.default({}),
  })
  .refine((one) => (one.workflow === undefined) !== (one.workflowId === undefined), {
    error: "needs either workflow or workflowId",
  })

const written = z.discriminatedUnion(
  "type",
  [bash, tool, agent, agentMessage, approval, conditional, parallel, loop, subworkflow],
  { error: "has no type that is known" },
)

const step: z.ZodType<Step> = z.lazy(() =>
  written.transform((one): Step => {
    if (one.type !== "agent_message") return one
    return {
      id: one.id,
      name: one.name,
      type: one.type,
      content: one.content ?? one.message ?? one.goal ?? "",
      interrupt: one.interrupt,
      awaitResponse: one.await_response ?? one.awaitResponse ?? false,
      awaitTimeoutMs: one.await_timeout_ms ?? one.awaitTimeoutMs,
    }
  }),
)

const workflow: z.ZodType<{ readonly steps: readonly Step[] }> = z.object(
  { steps },
  "a workflow must be an object with steps",
)

const problemOf = ({ path, message }: z.core.$ZodIssue): string =>
  path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`

/** A step without an id is named after its place; one with an id keeps it, be it a good one or not. */
const withIds = (definition: unknown, prefix = ""): unknown => {
  if (!isObject(definition)) return definition
  return { ...definition, steps: nameAll(definition["steps"], `${prefix}step-`) }
}

const nameAll = (list: unknown, prefix: string): unknown =>
  Array.isArray(list)
    ? list.map((one: unknown, index) => nameOne(one, `${prefix}${index + 1}`))
    : list

const nameOne = (one: unknown, given: string): unknown => {
  if (!isObject(one)) return one
  const id = one["id"] ?? given
  const below = typeof id === "string" ? id : given
  const nested = (["steps", "then", "else"] as const).flatMap((key) =>
    one[key] === undefined ? [] : [[key, nameAll(one[key], `${below}-${key}-`)] as const],
  )
  const inner = isObject(one["workflow"]) ? { workflow: withIds(one["workflow"]) } : {}
  return { ...one, ...Object.fromEntries(nested), ...inner, id }
}

/** An output is named by its step's id: two of the same name would be one too few. A subworkflow has names of its own. */
const firstTwice = (list: readonly Step[], seen = new Set<string>()): string | undefined => {
  for (const one of list) {
    if (seen.has(one.id)) return one.id
    seen.add(one.id)
    const found = firstTwice(nestedOf(one), seen)
    if (found !== undefined) return found
    if (one.type === "subworkflow" && one.workflow) {
      const inside = firstTwice(one.workflow.steps)
      if (inside !== undefined) return inside
    }
  }
  return undefined
}

const nestedOf = (one: Step): readonly Step[] => {
  if (one.type === "conditional") return [...one.then, ...one.else]
  return one.type === "parallel" || one.type === "loop" ? one.steps : []
}

/** The same text for the same value, in whatever order its keys were written. */
export const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map((one) => canonical(one ?? null)).join(",")}]`
  if (!isObject(value)) return JSON.stringify(value ?? null)
  const fields = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`)
  return `{${fields.join(",")}}`
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
