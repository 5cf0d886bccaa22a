/**
 * One run of a workflow: which step comes next, what is known by then, how it ends. What a step does is someone else's;
 * what was done is in the journal, and a run that goes on walks the same way again without doing any of it twice.
 */
import { describeError } from "../../lib/log.ts"
import { canonical } from "../../wire/workflow/canonical.ts"
import type { Step, StepOf } from "../../wire/workflow/definition.ts"
import { compile } from "./compile.ts"
import { asText, fill, fillText, type Scope, variableNamed } from "./template.ts"

/** A step at its place in the run: its id, after those of the loops and subworkflows that it stands in. */
export interface StepRecord {
  readonly stepId: string
  readonly status: "running" | "completed" | "failed" | "cancelled" | "waiting"
  readonly attempt: number
  readonly startedAt: string
  readonly completedAt?: string
  readonly input?: unknown
  readonly output?: unknown
  readonly error?: string
}

/** A step that does something outside, its texts filled in. */
export type Task = StepOf<"bash" | "tool" | "agent" | "agent_message">

export type Ending =
  | { readonly status: "ok"; readonly output: unknown }
  | {
      readonly status: "needs_approval"
      readonly stepId: string
      readonly prompt: string
      readonly items: readonly unknown[]
    }
  | { readonly status: "cancelled" | "failed"; readonly error: string }

export interface RunOptions {
  readonly steps: readonly Step[]
  readonly variables: Readonly<Record<string, unknown>>
  readonly journal: Map<string, StepRecord>
  /** Places of approvals that were given. */
  readonly approved: readonly string[]
  readonly maxSteps: number
  readonly attempt: number
  readonly signal: AbortSignal
  readonly now: () => number
  readonly perform: (task: Task, place: string) => Promise<unknown>
  /** The definition of a workflow that is kept elsewhere. */
  readonly findWorkflow: (id: string) => Promise<unknown>
  /** Called with every record before and after its step; what it throws ends the run. */
  readonly note: (record: StepRecord) => void
}

/** A workflow that calls itself would never end. */
const DEEPEST = 8
export const MOST_OUTPUT = 64_000

export const run = async (options: RunOptions): Promise<Ending> => {
  const scope: Scope = { variables: { ...options.variables }, outputs: {} }
  try {
    const output = await createWalk(options).all(options.steps, scope, "", 0)
    return { status: "ok", output }
  } catch (error) {
    if (options.signal.aborted)
      return { status: "cancelled", error: asText(options.signal.reason ?? "cancelled") }
    if (error instanceof Pause) return { status: "needs_approval", ...error.approval }
    return { status: "failed", error: describeError(error) }
  }
}

class Pause extends Error {
  override readonly name = "Pause"
  readonly approval: { stepId: string; prompt: string; items: readonly unknown[] }
  constructor(stepId: string, prompt: string, items: readonly unknown[]) {
    super(`${stepId} waits for approval`)
    this.approval = { stepId, prompt, items }
  }
}

/** Names the step that failed; those around it fail with it, in the same words. */
class StepError extends Error {
  override readonly name = "StepError"
}

const createWalk = (options: RunOptions) => {
  const { journal, signal } = options
  const now = () => new Date(options.now()).toISOString()
  let begun = 0

  const note = (record: StepRecord) => {
    journal.set(record.stepId, record)
    options.note(record)
  }

  const all = async (
    steps: readonly Step[],
    scope: Scope,
    prefix: string,
    depth: number,
  ): Promise<unknown> => {
    let output: unknown
    for (const step of steps) output = await one(step, scope, prefix, depth)
    return output
  }

  const one = async (step: Step, scope: Scope, prefix: string, depth: number): Promise<unknown> => {
    if (signal.aborted) throw new Error("cancelled")
    begun += 1
    if (begun > options.maxSteps)
      throw new Error(`the run takes more than ${options.maxSteps} steps (policy.maxSteps)`)
    const place = `${prefix}${step.id}`
    const known = journal.get(place)
    const output =
      known?.status === "completed" ? known.output : await attempt(step, scope, place, depth)
    // What a container did it does again from the journal: the names that its steps have set are needed after it.
    if (known?.status === "completed" && isContainer(step)) await inside(step, scope, place, depth)
    scope.outputs[step.id] = output
    if (step.type === "bash" && step.outputVariable) scope.variables[step.outputVariable] = output
    return output
  }

  const attempt = async (step: Step, scope: Scope, place: string, depth: number) => {
    const before = journal.get(place)
    const record = {
      ...(before?.input !== undefined && { input: before.input }),
      stepId: place,
      attempt: options.attempt,
      startedAt: before?.startedAt ?? now(),
    }
    /** A kept workflow is noted once it is known. */
    const current = () => ({ ...record, ...journal.get(place) })
    try {
      const task = taskOf(step, scope)
      note({ ...record, ...(task && { input: inputOf(task) }), status: "running" })
      const output = cut(
        task ? await options.perform(task, place) : await inside(step, scope, place, depth),
      )
      note({ ...current(), status: "completed", completedAt: now(), output })
      return output
    } catch (error) {
      if (error instanceof Pause) {
        note({ ...current(), status: "waiting" })
        throw error
      }
      const status = signal.aborted ? "cancelled" : "failed"
      const words = describeError(error)
      note({ ...current(), status, completedAt: now(), error: words })
      throw error instanceof StepError ? error : new StepError(`${place}: ${words}`)
    }
  }

  /** As it was when the run came there first: one that is changed meanwhile would lead another way. */
  const keptWorkflow = async (id: string, place: string): Promise<readonly Step[]> => {
    const record = journal.get(place)
    const known = record?.input as { readonly workflow?: unknown } | undefined
    const definition = known?.workflow ?? (await options.findWorkflow(id))
    const { steps } = compile(definition)
    if (record && known === undefined)
      note({ ...record, input: { workflowId: id, workflow: definition } })
    return steps
  }

  const inside = async (
    step: Step,
    scope: Scope,
    place: string,
    depth: number,
  ): Promise<unknown> => {
    switch (step.type) {
      case "approval":
        if (options.approved.includes(place)) return "approved"
        throw new Pause(place, fillText(step.prompt, scope), fill(step.items, scope) as unknown[])
      case "conditional":
        return all(
          isTrue(step.condition, scope) ? step.then : step.else,
          scope,
          prefixOf(place, step.id),
          depth,
        )
      case "parallel":
        return together(step.steps, scope, prefixOf(place, step.id), depth)
      case "loop":
        return repeat(step, scope, place, depth)
      case "subworkflow": {
        if (depth >= DEEPEST) throw new Error(`subworkflows are nested deeper than ${DEEPEST}`)
        const id = step.workflowId === undefined ? undefined : fillText(step.workflowId, scope)
        const steps = step.workflow?.steps ?? (await keptWorkflow(id ?? "", place))
        const own = { variables: { ...(fill(step.variables, scope) as object) }, outputs: {} }
        return all(steps, own, `${place}/`, depth + 1)
      }
      default:
        return undefined
    }
  }

  /** Each on a copy of what is known, joined in the order written: who is first must not matter. */
  const together = async (
    steps: readonly Step[],
    scope: Scope,
    prefix: string,
    depth: number,
  ): Promise<unknown> => {
    const scopes = steps.map(() => ({
      variables: { ...scope.variables },
      outputs: { ...scope.outputs },
    }))
    const ended = await Promise.allSettled(
      steps.map((step, index) => one(step, scopes[index] ?? scope, prefix, depth)),
    )
    const failures = ended.flatMap((end) =>
      end.status === "rejected" ? [end.reason as Error] : [],
    )
    const failure = failures.find((error) => !(error instanceof Pause)) ?? failures[0]
    if (failure) throw failure
    const before = { ...scope.variables }
    for (const { variables, outputs } of scopes) {
      Object.assign(scope.outputs, outputs)
      for (const [name, value] of Object.entries(variables)) {
        if (before[name] !== value) scope.variables[name] = value
      }
    }
    return Object.fromEntries(steps.map(({ id }) => [id, scope.outputs[id]]))
  }

  const repeat = async (
    step: StepOf<"loop">,
    scope: Scope,
    place: string,
    depth: number,
  ): Promise<unknown> => {
    const items = itemsOf(step, scope)
    if (items.length > step.maxIterations)
      throw new Error(`${items.length} rounds are more than maxIterations (${step.maxIterations})`)
    const outputs: unknown[] = []
    for (const [index, item] of items.entries()) {
      scope.variables[step.itemVariable] = item
      outputs.push(await all(step.steps, scope, `${place}[${index}].`, depth))
    }
    return outputs
  }

  return { all }
}

const isContainer = ({ type }: Step): boolean =>
  type === "conditional" || type === "parallel" || type === "loop" || type === "subworkflow"

/** Steps of a branch stand beside it: their ids are their own already. */
const prefixOf = (place: string, id: string): string => place.slice(0, place.length - id.length)

const isTrue = (condition: StepOf<"conditional">["condition"], scope: Scope): boolean =>
  typeof condition === "boolean"
    ? condition
    : canonical(variableNamed(condition.variable, scope)) ===
      canonical(fill(condition.equals, scope))

const itemsOf = (step: StepOf<"loop">, scope: Scope): readonly unknown[] => {
  if (step.over === undefined) return Array.from({ length: step.times ?? 0 }, (_, index) => index)
  if (typeof step.over !== "string") return step.over.map((item) => fill(item, scope))
  const list = step.over.includes("{{") ? fill(step.over, scope) : variableNamed(step.over, scope)
  if (!Array.isArray(list)) throw new Error(`${step.over} is no list`)
  return list
}

const taskOf = (step: Step, scope: Scope): Task | undefined => {
  const filled = (text: string) => fillText(text, scope)
  const some = (text: string | undefined) => (text === undefined ? undefined : filled(text))
  switch (step.type) {
    case "bash":
      return { ...step, command: filled(step.command), cwd: some(step.cwd) }
    case "tool":
      return { ...step, arguments: fill(step.arguments, scope) as Record<string, unknown> }
    case "agent":
      return {
        ...step,
        goal: filled(step.goal),
        context: some(step.context),
        model: some(step.model),
      }
    case "agent_message":
      return { ...step, content: filled(step.content) }
    default:
      return undefined
  }
}

const inputOf = (task: Task): unknown => {
  switch (task.type) {
    case "bash":
      return cut(task.command)
    case "tool":
      return { tool: task.tool, arguments: task.arguments }
    case "agent":
      return cut(task.goal)
    case "agent_message":
      return cut(task.content)
  }
}

const cut = (output: unknown): unknown =>
  typeof output === "string" ? output.slice(0, MOST_OUTPUT) : output
