/** The workflow definition: its steps, their limits and defaults, and the errors for a definition that is not valid. */
import { z } from "zod"
import { withIds } from "./canonical.ts"

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
        /** A list, or the name of a variable that contains one. */
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

/** What is wrong with a definition: one line per problem, each with its path. */
class WorkflowError extends Error {
  override readonly name = "WorkflowError"
}

/** Checks a definition and fills in ids and defaults. Throws a WorkflowError. */
export const parseWorkflow = (definition: unknown): readonly Step[] => {
  const parsed = workflow.safeParse(withIds(definition))
  if (!parsed.success) throw new WorkflowError(parsed.error.issues.map(problemOf).join("\n"))
  const duplicate = firstDuplicate(parsed.data.steps)
  if (duplicate !== undefined) throw new WorkflowError(`two steps have the id ${duplicate}`)
  return parsed.data.steps
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
  prompt: z.string("must be a text").default("Continue?"),
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
  .superRefine(({ over, times, maxIterations }, context) => {
    const path = times === undefined ? "over" : "times"
    const count = times ?? (Array.isArray(over) ? over.length : 0)
    if (count <= maxIterations) return
    const message = `${count} iterations exceed maxIterations (${maxIterations})`
    context.addIssue({ code: "custom", path: [path], message })
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
  { error: "is not a known step type" },
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

/** Outputs are stored by step id, so an id may occur only once. A subworkflow has ids of its own. */
const firstDuplicate = (list: readonly Step[], seen = new Set<string>()): string | undefined => {
  for (const one of list) {
    if (seen.has(one.id)) return one.id
    seen.add(one.id)
    const found = firstDuplicate(nestedOf(one), seen)
    if (found !== undefined) return found
    if (one.type === "subworkflow" && one.workflow) {
      const inside = firstDuplicate(one.workflow.steps)
      if (inside !== undefined) return inside
    }
  }
  return undefined
}

const nestedOf = (one: Step): readonly Step[] => {
  if (one.type === "conditional") return [...one.then, ...one.else]
  return one.type === "parallel" || one.type === "loop" ? one.steps : []
}
