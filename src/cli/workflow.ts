/** `sandpiper workflow`: a workflow looked over here, or run by the runner of this sandbox. */
import { readFile } from "node:fs/promises"
import { z } from "zod"
import { type Settings, SettingsError, type Arguments } from "../settings/settings.ts"
import { askControl, findControl } from "../runner/host/control-socket.ts"
import type { workflowOrder } from "../wire/frames/workflow.ts"
import { compile } from "../runner/workflow/compile.ts"

export interface ShellReport {
  /** It is over, and well: a run that waits for approval is not. */
  readonly ok: boolean
  readonly report: Readonly<Record<string, unknown>>
}

/** Longer than any run takes; whoever does not want to wait interrupts it, and it is cancelled. */
const LIMIT_MS = 24 * 60 * 60 * 1000

export const runFromShell = async (config: Settings, words: Arguments): Promise<ShellReport> => {
  const { file = "", variables, deny = false } = words.workflow ?? {}
  const content = await readJson(file)
  if (config.operand === "validate") {
    const { hash, steps } = compile(content)
    return { ok: true, report: { valid: true, workflowHash: hash, steps: steps.length } }
  }
  const order =
    config.operand === "run"
      ? runOrder(content, variablesOf(variables))
      : resumeOrder(content, deny ? "deny" : "approve")
  const control = await findControl(config.stateDir, config.environment["SANDPIPER_API_TOKEN"])
  const report = await askControl(control, "/workflow", order, LIMIT_MS)
  return { ok: report["status"] === "ok", report }
}

type Order = z.output<typeof workflowOrder>

const runOrder = (workflow: unknown, variables: Record<string, unknown>): Order => {
  // What is wrong with it is said before the runner is asked.
  compile(workflow)
  return { kind: "run", executionId: crypto.randomUUID(), payload: { workflow, variables } }
}

const stopped = z.object({
  executionId: z.string(),
  requiresApproval: z.object({ resumeToken: z.string() }),
})

const resumeOrder = (printed: unknown, decision: "approve" | "deny"): Order => {
  const parsed = stopped.safeParse(printed)
  if (!parsed.success)
    throw new SettingsError("FILE must be what a run that needs approval has printed")
  const { executionId, requiresApproval } = parsed.data
  const { resumeToken } = requiresApproval
  return { kind: "resume", executionId, resumeToken, decision, payload: {} }
}

const variablesOf = (text: string | undefined): Record<string, unknown> => {
  const parsed = z.record(z.string(), z.unknown()).safeParse(parseJson(text ?? "{}", "--variables"))
  if (!parsed.success) throw new SettingsError("--variables must be a JSON object")
  return parsed.data
}

const readJson = async (file: string): Promise<unknown> => {
  const text = await (file === "-" ? Bun.stdin.text() : readFile(file, "utf8")).catch(
    (cause: unknown) => {
      throw new SettingsError(`${file} cannot be read`, { cause })
    },
  )
  return parseJson(text, file)
}

const parseJson = (text: string, where: string): unknown => {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new SettingsError(`${where} is no JSON`, { cause })
  }
}
