/** Executions of workflows: status, steps and cancel. An approval is a verb of the client protocol. */
import { z } from "zod"
import { actionOperation, actionRequest } from "./action.ts"
import { entity, prose, text } from "./fields.ts"
import { renderList, renderValue } from "./render.ts"

const executionApi = actionRequest("execution-api", ["get", "steps", "cancel"])

export const requests = [executionApi] as const

const id = text("Id of the execution")

const statusReply = z.object({ success: z.boolean(), status: z.string().optional() })

export const operations = [
  actionOperation({
    name: "get-execution",
    method: "GET",
    path: "/api/executions/:id",
    doc: "Read the status of an execution.",
    tools: [
      {
        name: "get_execution",
        description: "Read the status of a workflow execution.",
        render: ({ execution }) => renderValue(execution),
      },
    ],
    input: z.object({ id }),
    output: z.object({ execution: entity }),
    request: executionApi,
    action: "get",
    toPayload: (input) => ({ executionId: input.id }),
  }),
  actionOperation({
    name: "get-execution-steps",
    method: "GET",
    path: "/api/executions/:id/steps",
    doc: "Read the steps of an execution with their results.",
    tools: [
      {
        name: "get_execution_steps",
        description: "Read the steps of a workflow execution with their results.",
        render: ({ steps }) => renderList(steps, "step", "steps"),
      },
    ],
    input: z.object({ id }),
    output: z.object({ steps: z.array(entity) }),
    request: executionApi,
    action: "steps",
    toPayload: (input) => ({ executionId: input.id }),
  }),
  actionOperation({
    name: "cancel-execution",
    method: "POST",
    path: "/api/executions/:id/cancel",
    doc: "Cancel an execution.",
    tools: [
      {
        name: "cancel_execution",
        description: "Cancel a workflow execution.",
        render: ({ status }) => (status ? `Status: ${status}.` : "Cancelled."),
      },
    ],
    input: z.object({ id, reason: prose("Reason").optional() }),
    output: statusReply,
    request: executionApi,
    action: "cancel",
    toPayload: ({ id: executionId, ...rest }) => ({ executionId, ...rest }),
  }),
] as const
