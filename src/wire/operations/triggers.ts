/** Triggers: what starts a workflow, or a session, without anybody asking. */
import { z } from "zod"
import { actionOperation, actionRequest } from "./action.ts"
import { entity, flag, openObject, queryFlag, success, text } from "./fields.ts"
import { runInput } from "./workflows.ts"
import { listed, shown } from "./render.ts"

const triggerApi = actionRequest("trigger-api", ["list", "create", "update", "run", "delete"])

export const requests = [triggerApi] as const

const id = text("The trigger's id")

const settings = {
  workflowId: text("A workflow's id or slug")
    .nullable()
    .describe("The workflow it starts; null takes the workflow away")
    .optional(),
  name: text("Name of the trigger"),
  enabled: flag("Whether it fires").optional(),
  config: openObject("What sets it off: a webhook, a schedule, a hand"),
  variableMapping: openObject("Where each variable of the workflow gets its value").optional(),
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
        render: ({ triggers }) => listed(triggers, "trigger", "triggers"),
      },
    ],
    input: z.object({
      workflowId: text("Only triggers of this workflow").optional(),
      type: text("Only triggers of this type").optional(),
      enabled: queryFlag("Only those that fire, or only those that do not").optional(),
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
    doc: "Add a trigger.",
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
    doc: "Change a trigger; what is left out stays.",
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
    doc: "Set a trigger off by hand.",
    tools: [
      {
        name: "run_trigger",
        description: "Set a trigger off by hand, as if what it waits for had happened.",
        render: (run) => `Started.\n${shown(run)}`,
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
