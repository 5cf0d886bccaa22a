/** Joins a run of a workflow with its steps, and says what to do next. */
import { z } from "zod"
import { text } from "../src/wire/operations/fields.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { defineTool } from "./tool.ts"

const execution = z.looseObject({
  status: z.string().optional(),
  error: z.unknown().optional(),
  resumeToken: z.string().optional(),
})

const step = z.looseObject({
  stepId: z.string().optional(),
  status: z.string().optional(),
  attempt: z.number().optional(),
  error: z.unknown().optional(),
})

export type Execution = z.output<typeof execution>
export type Step = z.output<typeof step>

/** One line a step, the failed ones with their error, then what to do. */
export const explain = (run: Execution, steps: readonly Step[]): string => {
  const lines = steps.map(({ stepId = "?", status = "unknown", attempt, error }) => {
    const tries = attempt !== undefined && attempt > 1 ? `, attempt ${attempt}` : ""
    return `- ${stepId}: ${status}${tries}${error === undefined ? "" : `: ${short(error)}`}`
  })
  return [
    `The run is ${run.status ?? "in an unknown state"}.`,
    ...(run.error === undefined ? [] : [`Its error: ${short(run.error)}`]),
    ...(lines.length === 0 ? ["No step has run."] : lines),
    `Next: ${adviceOn(run, steps)}`,
  ].join("\n")
}

const adviceOn = (run: Execution, steps: readonly Step[]): string => {
  const failed = steps.find(({ status }) => status === "failed" || status === "error")
  switch (run.status) {
    case "needs_approval":
    case "waiting_approval":
      return "ask the user whether it may go on, then call approve_execution with the run's resumeToken."
    case "failed":
    case "error":
      return failed
        ? `look at step ${failed.stepId ?? "?"} with get_execution_steps, correct the workflow with update_workflow, and start it again with run_workflow.`
        : "no step failed, so look at the workflow's definition with get_workflow."
    case "cancelled":
      return "it was stopped; start it again with run_workflow if it is still wanted."
    case "ok":
    case "completed":
      return "nothing; it is done."
    default:
      return "it still runs; look again later, or stop it with cancel_execution."
  }
}

const LONGEST = 500

const short = (value: unknown): string => {
  const words = typeof value === "string" ? value : JSON.stringify(value)
  return words.length > LONGEST ? `${words.slice(0, LONGEST)}...` : words
}

export const debugExecution = defineTool({
  description:
    "Find out why a run of a workflow is where it is: its status, every step with its error, and what to do next.",
  input: z.object({ id: text("The run's id") }),
  run: async ({ id }, context) => {
    const [run, done] = await Promise.all([
      callOperation({ operation: operationNamed("get-execution"), input: { id }, context }),
      callOperation({ operation: operationNamed("get-execution-steps"), input: { id }, context }),
    ])
    const { execution: found } = z.object({ execution }).parse(run)
    const { steps } = z.object({ steps: z.array(step) }).parse(done)
    return explain(found, steps)
  },
})
