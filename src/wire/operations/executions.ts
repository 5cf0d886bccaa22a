/** Executions of workflows: status, steps, approval and cancel. */
import { z } from "zod"
import { actionOperation, actionRequest } from "./action.ts"
import { entity, flag, prose, text } from "./fields.ts"
import { renderList, renderValue } from "./render.ts"

const executionApi = actionRequest("execution-api", ["get", "steps", "approve", "cancel"])

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
    name: "approve-execution",
    method: "POST",
    path: "/api/executions/:id/approve",
    doc: "Approve or deny the approval that an execution waits for.",
    tools: [
      {
        name: "approve_execution",
        description:
          "Approve or deny a workflow execution for the user. The hub refuses it, because a person decides in their client: ask the user there.",
        render: ({ status }) => (status ? `Decided. Status: ${status}.` : "Decided."),
      },
    ],
    input: z.object({
      id,
      approve: flag("true resumes the execution, false ends it"),
      resumeToken: text("resumeToken of the pending approval, from the user"),
      reason: prose("Reason").optional(),
    }),
    output: statusReply,
    request: executionApi,
    action: "approve",
    toPayload: ({ id: executionId, ...rest }) => ({ executionId, ...rest }),
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
