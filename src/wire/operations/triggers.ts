/** Triggers: a schedule, a webhook or a manual call that starts a workflow or sends a prompt. */
import { z } from "zod"
import { actionOperation, actionRequest } from "./action.ts"
import { entity, flag, openObject, queryFlag, success, text } from "./fields.ts"
import { runInput } from "./workflows.ts"
import { renderList, renderValue } from "./render.ts"

const triggerApi = actionRequest("trigger-api", ["list", "create", "update", "run", "delete"])

export const requests = [triggerApi] as const

const id = text("Id of the trigger")

const settings = {
  workflowId: text("Id or slug of a workflow")
    .nullable()
    .describe("Workflow to start; null removes it")
    .optional(),
  name: text("Name"),
  enabled: flag("false disables it").optional(),
  config: openObject("Type and settings of the webhook, schedule or manual trigger"),
  variableMapping: openObject(
    "Workflow variable to path in the trigger's data, which must have it",
  ).optional(),
}

const changed = z.object({ trigger: entity, success: z.boolean() })

export const operations = [
  actionOperation({
    name: "list-triggers",
    method: "GET",
    path: "/api/triggers",
    doc: "List the triggers.",
    tools: [
      {
        name: "list_triggers",
        description: "List the triggers that start workflows.",
        render: ({ triggers }) => renderList(triggers, "trigger", "triggers"),
      },
    ],
    input: z.object({
      workflowId: text("Only triggers of this workflow").optional(),
      type: text("Only triggers of this type").optional(),
      enabled: queryFlag("Only enabled or only disabled triggers").optional(),
    }),
    output: z.object({ triggers: z.array(entity) }),
    request: triggerApi,
    action: "list",
    toPayload: (input) => input,
  }),
  actionOperation({
    name: "create-trigger",
    method: "POST",
    path: "/api/triggers",
    doc: "Create a trigger.",
    tools: { none: "sync_trigger calls it" },
    input: z.object(settings),
    output: changed,
    request: triggerApi,
    action: "create",
    toPayload: (input) => input,
  }),
  actionOperation({
    name: "update-trigger",
    method: "PATCH",
    path: "/api/triggers/:id",
    doc: "Change a trigger; absent fields keep their value.",
    tools: { none: "sync_trigger calls it" },
    input: z.object({ id, ...z.object(settings).partial().shape }),
    output: changed,
    request: triggerApi,
    action: "update",
    toPayload: ({ id: triggerId, ...rest }) => ({ triggerId, ...rest }),
  }),
  actionOperation({
    name: "run-trigger",
    method: "POST",
    path: "/api/triggers/:id/run",
    doc: "Fire a trigger now.",
    tools: [
      {
        name: "run_trigger",
        description: "Fire a trigger now.",
        render: (run) => `Started.\n${renderValue(run)}`,
      },
    ],
    input: z.object({ id, ...runInput }),
    output: z.unknown(),
    request: triggerApi,
    action: "run",
    toPayload: ({ id: triggerId, ...rest }) => ({ triggerId, ...rest }),
  }),
  actionOperation({
    name: "delete-trigger",
    method: "DELETE",
    path: "/api/triggers/:id",
    doc: "Delete a trigger.",
    tools: [
      {
        name: "delete_trigger",
        description: "Delete a trigger.",
        render: () => "The trigger is deleted.",
      },
    ],
    input: z.object({ id }),
    output: success,
    request: triggerApi,
    action: "delete",
    toPayload: (input) => ({ triggerId: input.id }),
  }),
] as const
