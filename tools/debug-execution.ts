/** Shows a workflow execution with its steps and advises what to do next. */
import { z } from "zod"
import { text } from "../src/wire/operations/fields.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { defineTool } from "./tool.ts"

const execution = z.looseObject({
  status: z.string().optional(),
  error: z.unknown().optional(),
})

const step = z.looseObject({
  stepId: z.string().optional(),
  status: z.string().optional(),
  attempt: z.number().optional(),
  error: z.unknown().optional(),
})

export type Execution = z.output<typeof execution>
export type Step = z.output<typeof step>

/** One line per step with its error, then the advice. */
export const explain = (run: Execution, steps: readonly Step[]): string => {
  const lines = steps.map(({ stepId = "?", status = "unknown", attempt, error }) => {
    const attempts = attempt !== undefined && attempt > 1 ? `, attempt ${attempt}` : ""
    return `- ${stepId}: ${status}${attempts}${error === undefined ? "" : `: ${shorten(error)}`}`
  })
  return [
    `Status: ${run.status ?? "unknown"}.`,
    ...(run.error === undefined ? [] : [`Error: ${shorten(run.error)}`]),
    ...(lines.length === 0 ? ["No step has run."] : lines),
    `Next: ${adviceFor(run, steps)}`,
  ].join("\n")
}

const adviceFor = (run: Execution, steps: readonly Step[]): string => {
  const failed = steps.find(({ status }) => status === "failed" || status === "error")
  switch (run.status) {
    case "needs_approval":
    case "waiting_approval":
      return "ask the user to approve or deny it in their client; the execution then continues by itself."
    case "failed":
    case "error":
      return failed
        ? `read step ${failed.stepId ?? "?"} with get_execution_steps, fix the workflow with update_workflow and start it again with run_workflow.`
        : "no step failed; check the definition with get_workflow."
    case "cancelled":
      return "it was cancelled; start it again with run_workflow if it is still needed."
    case "ok":
    case "completed":
      return "nothing to do; it is completed."
    default:
      return "it is still running; check later or stop it with cancel_execution."
  }
}

const MAX_ERROR_CHARACTERS = 500

const shorten = (value: unknown): string => {
  const message = typeof value === "string" ? value : JSON.stringify(value)
  return message.length > MAX_ERROR_CHARACTERS
    ? `${message.slice(0, MAX_ERROR_CHARACTERS)}...`
    : message
}

export const debugExecution = defineTool({
  description:
    "Diagnose a workflow execution: status, every step with its error, and what to do next.",
  input: z.object({ id: text("Id of the execution") }),
  run: async ({ id }, context) => {
    const [run, stepList] = await Promise.all([
      callOperation({ operation: operationNamed("get-execution"), input: { id }, context }),
      callOperation({ operation: operationNamed("get-execution-steps"), input: { id }, context }),
    ])
    const { execution: found } = z.object({ execution }).parse(run)
    const { steps } = z.object({ steps: z.array(step) }).parse(stepList)
    return explain(found, steps)
  },
})
