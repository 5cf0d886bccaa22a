/** What a row is, and the checks that many rows share. */
import { expect } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { untilTrue } from "../../kit/until-true.ts"
import type { ToolName } from "../effects.ts"
import type { House, ToolCallResult } from "./house.ts"

/** Makes the call through the whole system and looks at the place where its effect is seen. */
export type Row = (house: House) => Promise<void>

export type Rows<Names extends ToolName> = Readonly<Record<Names, Row>>

/** Calls a tool whose call must succeed: a failure shows its error. */
export const succeed = async (
  { call }: House,
  name: ToolName,
  args: Readonly<Record<string, unknown>>,
): Promise<ToolCallResult> => {
  const result = await call(name, args)
  expect(`${name} ${result.status}: ${result.shown}`).toStartWith(`${name} completed`)
  return result
}

/** The JSON object in a tool's text, which follows its first line. */
export const objectIn = (text: string): Record<string, unknown> =>
  JSON.parse(text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1)) as Record<string, unknown>

export const untilFile = async (path: string): Promise<string> => {
  await untilTrue(() => existsSync(path) && readFileSync(path, "utf8") !== "", `file ${path}`)
  return readFileSync(path, "utf8")
}

export { untilTrue } from "../../kit/until-true.ts"

/** A workflow that another session has stored; its one step writes a file into the workspace of the run. */
export const storeWorkflow = async (
  { other }: House,
  slug: string,
  steps: readonly object[],
): Promise<{ readonly id: string; readonly workflowHash: string }> => {
  const { workflow } = await other.uplink.request("workflow-sync", {
    slug,
    name: slug,
    data: { steps: [...steps] },
  })
  return workflow as never
}

/** Runs a workflow in the session `main` by its tool and returns the id of the run. */
export const runWorkflow = async (house: House, slug: string): Promise<string> => {
  const { shown } = await succeed(house, "run_workflow", { workflowId: slug })
  return String(objectIn(shown)["id"])
}

export const executionOf = async (
  { other }: House,
  executionId: string,
): Promise<Record<string, unknown>> => {
  const { data } = await other.uplink.request("execution-api", {
    action: "get",
    payload: { executionId },
  })
  return (data as { execution: Record<string, unknown> }).execution
}

export const untilStatus = (house: House, executionId: string, status: string): Promise<void> =>
  untilTrue(
    async () => (await executionOf(house, executionId))["status"] === status,
    `status ${status} of ${executionId}`,
  )
