/** Creates a trigger, or changes one, from arguments that name its kind. */
import { z } from "zod"
import { flag, oneOf, openObject, prose, text } from "../src/wire/operations/fields.ts"
import { shown } from "../src/wire/operations/render.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { defineTool } from "./tool.ts"

const input = z
  .object({
    trigger_id: text("The trigger to change; a new one is made when absent").optional(),
    name: text("Name of the trigger; needed for a new one").optional(),
    type: oneOf("What sets it off", ["webhook", "schedule", "manual"]),
    workflow_id: text("A workflow's id or slug")
      .nullable()
      .describe("The workflow it starts; null takes the workflow away")
      .optional(),
    enabled: flag("Whether it fires").optional(),
    webhook_path: text("Path of the webhook; for type webhook").optional(),
    webhook_method: oneOf("Method of the webhook", ["GET", "POST", "PUT"]).optional(),
    webhook_secret: text("What signs the webhook's calls").optional(),
    schedule_cron: text("When it fires, as a cron expression; for type schedule").optional(),
    schedule_timezone: text("Time zone of the cron expression, such as Europe/Berlin").optional(),
    schedule_target: oneOf("What it starts", ["workflow", "orchestrator"]).optional(),
    schedule_prompt: prose("What the orchestrator is told, when it is the target").optional(),
    variable_mapping: openObject("Where each variable gets its value").optional(),
  })
  .refine(({ trigger_id, name }) => trigger_id !== undefined || name !== undefined, {
    error: "is required for a new trigger",
    path: ["name"],
  })
  .refine(({ type, webhook_path }) => type !== "webhook" || webhook_path !== undefined, {
    error: "is required for a webhook",
    path: ["webhook_path"],
  })
  .refine(({ type, schedule_cron }) => type !== "schedule" || schedule_cron !== undefined, {
    error: "is required for a schedule",
    path: ["schedule_cron"],
  })
  .refine(
    ({ schedule_target, schedule_prompt }) =>
      schedule_target !== "orchestrator" || Boolean(schedule_prompt),
    { error: "is required when the target is the orchestrator", path: ["schedule_prompt"] },
  )

type Input = z.output<typeof input>

/** Arguments of another kind of trigger are left out, not sent along. */
export const configOf = (given: Input): Record<string, unknown> => {
  switch (given.type) {
    case "webhook":
      return present({
        type: "webhook",
        path: given.webhook_path,
        method: given.webhook_method,
        secret: given.webhook_secret,
      })
    case "schedule":
      return present({
        type: "schedule",
        cron: given.schedule_cron,
        timezone: given.schedule_timezone,
        target: given.schedule_target,
        prompt: given.schedule_prompt,
      })
    case "manual":
      return { type: "manual" }
  }
}

export const syncTrigger = defineTool({
  description:
    "Create a trigger that starts a workflow, or change one: a webhook, a schedule, or by hand. Give the arguments of its type only.",
  input,
  run: async (given, context) => {
    const { trigger_id: id } = given
    const reply = await callOperation({
      operation: operationNamed(id === undefined ? "create-trigger" : "update-trigger"),
      input: {
        id,
        name: given.name,
        workflowId: given.workflow_id,
        enabled: given.enabled,
        config: configOf(given),
        variableMapping: given.variable_mapping,
      },
      context,
    })
    const { trigger } = z.object({ trigger: z.unknown() }).parse(reply)
    return `${id === undefined ? "Created." : "Saved."}\n${shown(trigger)}`
  },
})

const present = (fields: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
