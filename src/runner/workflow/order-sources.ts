/** Where orders and workflows come from other than a frame: a shell, and the session agent's own store. */
import { z } from "zod"
import type { Inbound } from "../../wire/frames/index.ts"
import { workflowOrder } from "../../wire/frames/workflow.ts"
import type { Link } from "../link/link.ts"

/** An order as a shell sends it, checked like a frame's. */
export const shellOrder = (order: unknown): Omit<Inbound<"workflow-execute">, "type"> => {
  const parsed = workflowOrder.safeParse(order)
  if (!parsed.success) throw new Error(`no order: ${z.prettifyError(parsed.error)}`)
  return { executionId: parsed.data.executionId, payload: parsed.data }
}

const kept = z.object({ workflow: z.looseObject({ data: z.unknown() }) })

export const findWorkflow = async (request: Link["request"], id: string): Promise<unknown> => {
  const { data } = await request("workflow-api", { action: "get", payload: { workflowId: id } })
  const found = kept.safeParse(data)
  if (!found.success) throw new Error(`the session agent has no workflow ${id}`)
  const { data: definition } = found.data.workflow
  return typeof definition === "string" ? JSON.parse(definition) : definition
}
