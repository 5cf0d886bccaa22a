/** Runs of workflows: how they go, and the decisions they wait for. */
import { z } from "zod"
import { actionOperation, actionRequest } from "./action.ts"
import { entity, flag, prose, text } from "./fields.ts"
import { listed, shown } from "./render.ts"

const executionApi = actionRequest("execution-api", ["get", "steps", "approve", "cancel"])

export const requests = [executionApi] as const

const id = text("The run's id")

const decided = z.object({ success: z.boolean(), status: z.string().optional() })

export const operations = [
  actionOperation({
    name: "get-execution",
    method: "GET",
    path: "/api/executions/:id",
    doc: "Read how a run stands.",
    tools: [
      {
        name: "get_execution",
        description: "Read how a run of a workflow stands.",
        render: ({ execution }) => shown(execution),
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
    doc: "Read what each step of a run did.",
    tools: [
      {
        name: "get_execution_steps",
        description: "Read what each step of a run did.",
        render: ({ steps }) => listed(steps, "step", "steps"),
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
    doc: "Decide on the approval that a run waits for.",
    tools: [
      {
        name: "approve_execution",
        description: "Decide on the approval that a run waits for. Only when the user has said so.",
        render: ({ status }) => (status ? `Decided: the run is ${status}.` : "Decided."),
      },
    ],
    input: z.object({
      id,
      approve: flag("true lets the run go on, false ends it"),
      resumeToken: text("The token that came with the approval"),
      reason: prose("Why").optional(),
    }),
    output: decided,
    request: executionApi,
    action: "approve",
    toPayload: ({ id: executionId, ...rest }) => ({ executionId, ...rest }),
  }),
  actionOperation({
    name: "cancel-execution",
    method: "POST",
    path: "/api/executions/:id/cancel",
    doc: "Stop a run.",
    tools: [
      {
        name: "cancel_execution",
        description: "Stop a run of a workflow.",
        render: ({ status }) => (status ? `The run is ${status}.` : "The run is stopped."),
      },
    ],
    input: z.object({ id, reason: prose("Why").optional() }),
    output: decided,
    request: executionApi,
    action: "cancel",
    toPayload: ({ id: executionId, ...rest }) => ({ executionId, ...rest }),
  }),
] as const
