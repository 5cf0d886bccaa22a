/**
 * Walks the steps of a workflow. Completed steps are in the journal: a resumed run walks from the beginning again and takes
 * their outputs from there instead of repeating them (decision 0013).
 */
import { describeError } from "../../lib/log.ts"
import { canonical } from "../../wire/workflow/canonical.ts"
import type { Step, StepOf } from "../../wire/workflow/definition.ts"
import { compile } from "./compile.ts"
import { asText, fill, fillText, type Scope, variableNamed } from "./template.ts"

/** The record of one step. `stepId` is its place: its id, prefixed with those of the enclosing loops and subworkflows. */
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

/** A step with an effect outside the walk, its placeholders filled in. */
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
  /** Places of approved steps. */
  readonly approved: readonly string[]
  readonly maxSteps: number
  readonly attempt: number
  readonly signal: AbortSignal
  readonly now: () => number
  readonly perform: (task: Task, place: string) => Promise<unknown>
  /** Gets the definition of a stored workflow. */
  readonly findWorkflow: (id: string) => Promise<unknown>
  /** Stores a record before and after each step; an exception from it fails the run. */
  readonly note: (record: StepRecord) => void
}

/** Ends a workflow that calls itself. */
const MAX_DEPTH = 8
export const MAX_OUTPUT = 64_000

export const run = async (options: RunOptions): Promise<Ending> => {
  const scope: Scope = { variables: { ...options.variables }, outputs: {} }
  try {
    const output = await createWalk(options).runAll(options.steps, scope, "", 0)
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

/** Names the failed step; enclosing steps fail with the same message. */
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

  const runAll = async (
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
    // A completed container is walked again from the journal, because its steps set variables that later steps need.
    if (known?.status === "completed" && isContainer(step))
      await runContainer(step, scope, place, depth)
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
    /** The journal may have a newer record: a subworkflow adds its definition to the input. */
    const current = () => ({ ...record, ...journal.get(place) })
    try {
      const task = taskOf(step, scope)
      note({ ...record, ...(task && { input: inputOf(task) }), status: "running" })
      const output = truncate(
        task ? await options.perform(task, place) : await runContainer(step, scope, place, depth),
      )
      note({ ...current(), status: "completed", completedAt: now(), output })
      return output
    } catch (error) {
      if (error instanceof Pause) {
        note({ ...current(), status: "waiting" })
        throw error
      }
      const status = signal.aborted ? "cancelled" : "failed"
      const message = describeError(error)
      note({ ...current(), status, completedAt: now(), error: message })
      throw error instanceof StepError ? error : new StepError(`${place}: ${message}`)
    }
  }

  /** The definition of the first walk: a changed one would lead to other steps. */
  const storedWorkflow = async (id: string, place: string): Promise<readonly Step[]> => {
    const record = journal.get(place)
    const known = record?.input as { readonly workflow?: unknown } | undefined
    const definition = known?.workflow ?? (await options.findWorkflow(id))
    const { steps } = compile(definition)
    if (record && known === undefined)
      note({ ...record, input: { workflowId: id, workflow: definition } })
    return steps
  }

  const runContainer = async (
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
        return runAll(
          isTrue(step.condition, scope) ? step.then : step.else,
          scope,
          prefixOf(place, step.id),
          depth,
        )
      case "parallel":
        return runParallel(step.steps, scope, prefixOf(place, step.id), depth)
      case "loop":
        return runLoop(step, scope, place, depth)
      case "subworkflow": {
        if (depth >= MAX_DEPTH) throw new Error(`subworkflows are nested deeper than ${MAX_DEPTH}`)
        const id = step.workflowId === undefined ? undefined : fillText(step.workflowId, scope)
        const steps = step.workflow?.steps ?? (await storedWorkflow(id ?? "", place))
        const own = { variables: { ...(fill(step.variables, scope) as object) }, outputs: {} }
        return runAll(steps, own, `${place}/`, depth + 1)
      }
      default:
        return undefined
    }
  }

  /** Each step gets a copy of the scope; the copies are merged in written order, so that timing has no influence. */
  const runParallel = async (
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

  const runLoop = async (
    step: StepOf<"loop">,
    scope: Scope,
    place: string,
    depth: number,
  ): Promise<unknown> => {
    const items = itemsOf(step, scope)
    if (items.length > step.maxIterations)
      throw new Error(`${items.length} iterations exceed maxIterations (${step.maxIterations})`)
    const outputs: unknown[] = []
    for (const [index, item] of items.entries()) {
      scope.variables[step.itemVariable] = item
      outputs.push(await runAll(step.steps, scope, `${place}[${index}].`, depth))
    }
    return outputs
  }

  return { runAll }
}

const isContainer = ({ type }: Step): boolean =>
  type === "conditional" || type === "parallel" || type === "loop" || type === "subworkflow"

/** Steps of a branch have the same prefix as the branch itself: ids are unique across branches. */
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
  if (!Array.isArray(list)) throw new Error(`${step.over} is not a list`)
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
      return truncate(task.command)
    case "tool":
      return { tool: task.tool, arguments: task.arguments }
    case "agent":
      return truncate(task.goal)
    case "agent_message":
      return truncate(task.content)
  }
}

const truncate = (output: unknown): unknown =>
  typeof output === "string" ? output.slice(0, MAX_OUTPUT) : output
