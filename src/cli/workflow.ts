/** `sandpiper workflow`: validates a definition here, or runs or resumes a workflow in the runner of this sandbox. */
import { readFile } from "node:fs/promises"
import { z } from "zod"
import { askControl, findControl } from "../runner/host/control-socket.ts"
import { compile } from "../runner/workflow/compile.ts"
import type { Arguments } from "../settings/arguments.ts"
import type { Settings } from "../settings/settings.ts"
import { SettingsError } from "../settings/settings-error.ts"
import type { workflowOrder } from "../wire/frames/workflow.ts"
import { stateDirOf } from "./find-hub.ts"
import { type Command, print } from "./command.ts"

export const workflow: Command = async ({ settings, args }) => {
  const { ok, report } = await runWorkflowCommand(settings, args)
  print(`${JSON.stringify(report, undefined, 2)}\n`)
  return ok ? 0 : 1
}

export interface WorkflowReport {
  /** The workflow has succeeded; false also for a run that waits for approval. */
  readonly ok: boolean
  readonly report: Readonly<Record<string, unknown>>
}

/** Longer than any run. An interrupt of this command closes the connection, which cancels the run. */
const LIMIT_MS = 24 * 60 * 60 * 1000

export const runWorkflowCommand = async (
  settings: Settings,
  args: Arguments,
): Promise<WorkflowReport> => {
  const { file = "", variables, deny = false } = args.workflow ?? {}
  const content = await readJson(file)
  if (settings.operand === "validate") {
    const { hash, steps } = compile(content)
    return { ok: true, report: { valid: true, workflowHash: hash, steps: steps.length } }
  }
  const order =
    settings.operand === "run"
      ? runOrder(content, parseVariables(variables))
      : resumeOrder(content, deny ? "deny" : "approve")
  const control = await findControl(
    stateDirOf(settings),
    settings.environment["SANDPIPER_API_TOKEN"],
  )
  const report = await askControl(control, "/workflow", order, LIMIT_MS)
  return { ok: report["status"] === "ok", report }
}

type Order = z.output<typeof workflowOrder>

const runOrder = (definition: unknown, variables: Record<string, unknown>): Order => {
  // Reports errors in the definition without a runner.
  compile(definition)
  return {
    kind: "run",
    executionId: crypto.randomUUID(),
    payload: { workflow: definition, variables },
  }
}

const waitingRun = z.object({
  executionId: z.string(),
  /** Absent in the output for the agent; the runner's own user decides without it. */
  requiresApproval: z.object({ resumeToken: z.string().optional() }),
})

const resumeOrder = (printed: unknown, decision: "approve" | "deny"): Order => {
  const parsed = waitingRun.safeParse(printed)
  if (!parsed.success)
    throw new SettingsError("FILE must contain the output of a run that waits for approval")
  const { executionId, requiresApproval } = parsed.data
  const { resumeToken } = requiresApproval
  return { kind: "resume", executionId, resumeToken, decision, payload: {} }
}

const parseVariables = (text: string | undefined): Record<string, unknown> => {
  const parsed = z.record(z.string(), z.unknown()).safeParse(parseJson(text ?? "{}", "--variables"))
  if (!parsed.success) throw new SettingsError("--variables must be a JSON object")
  return parsed.data
}

/** `-` is the standard input. */
const readJson = async (file: string): Promise<unknown> => {
  const text = await (file === "-" ? Bun.stdin.text() : readFile(file, "utf8")).catch(
    (cause: unknown) => {
      throw new SettingsError(`${file} cannot be read`, { cause })
    },
  )
  return parseJson(text, file)
}

const parseJson = (text: string, source: string): unknown => {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new SettingsError(`${source} is not valid JSON`, { cause })
  }
}
