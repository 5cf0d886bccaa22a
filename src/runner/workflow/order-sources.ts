/** Orders from a shell, and workflow definitions from the session agent's store. */
import { z } from "zod"
import type { Inbound } from "../../wire/frames/index.ts"
import { workflowOrder } from "../../wire/frames/workflow.ts"
import type { Link } from "../link/link.ts"

/** Parses an order from a shell by the same schema as a frame. */
export const shellOrder = (order: unknown): Omit<Inbound<"workflow-execute">, "type"> => {
  const parsed = workflowOrder.safeParse(order)
  if (!parsed.success) throw new Error(`the order is not valid: ${z.prettifyError(parsed.error)}`)
  return { executionId: parsed.data.executionId, payload: parsed.data }
}

const storedWorkflow = z.object({ workflow: z.looseObject({ data: z.unknown() }) })

export const findWorkflow = async (request: Link["request"], id: string): Promise<unknown> => {
  const { data } = await request("workflow-api", { action: "get", payload: { workflowId: id } })
  const found = storedWorkflow.safeParse(data)
  if (!found.success) throw new Error(`the session agent has no workflow ${id}`)
  const { data: definition } = found.data.workflow
  return typeof definition === "string" ? JSON.parse(definition) : definition
}
