/** Creates or changes a trigger, with separate arguments for each type of trigger. */
import { z } from "zod"
import { flag, oneOf, openObject, prose, text } from "../src/wire/operations/fields.ts"
import { renderValue } from "../src/wire/operations/render.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { defineTool } from "./tool.ts"

const input = z
  .object({
    trigger_id: text("Trigger to change; default: create a new one").optional(),
    name: text("Name; required for a new trigger").optional(),
    type: oneOf("What fires it", ["webhook", "schedule", "manual"]),
    workflow_id: text("Id or slug of a workflow")
      .nullable()
      .describe("Workflow to start, by id or slug; null removes it")
      .optional(),
    enabled: flag("false disables it").optional(),
    webhook_secret: text("Secret of the webhook; default: generated").optional(),
    schedule_cron: text("Cron expression with 5 fields; required for a schedule").optional(),
    schedule_timezone: text("Time zone, such as Europe/Berlin; default: UTC").optional(),
    schedule_target: oneOf("What the schedule starts", ["workflow", "orchestrator"]).optional(),
    schedule_prompt: prose("Prompt for the orchestrator").optional(),
    variable_mapping: openObject(
      "Workflow variable to path in the trigger's data, which must have it",
    ).optional(),
  })
  .refine(({ trigger_id, name }) => trigger_id !== undefined || name !== undefined, {
    error: "is required for a new trigger",
    path: ["name"],
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

/** Ignores the arguments of other trigger types. */
export const configOf = (args: Input): Record<string, unknown> => {
  switch (args.type) {
    case "webhook":
      return withoutUndefined({
        type: "webhook",
        secret: args.webhook_secret,
      })
    case "schedule":
      return withoutUndefined({
        type: "schedule",
        cron: args.schedule_cron,
        timezone: args.schedule_timezone,
        target: args.schedule_target,
        prompt: args.schedule_prompt,
      })
    case "manual":
      return { type: "manual" }
  }
}

export const syncTrigger = defineTool({
  description:
    "Create or change a trigger that starts a workflow: a webhook, a schedule or manual. Give only the arguments of its type. The result of a webhook has the `path` to POST to and the `secret` to send as bearer token.",
  input,
  run: async (args, context) => {
    const { trigger_id: id } = args
    const reply = await callOperation({
      operation: operationNamed(id === undefined ? "create-trigger" : "update-trigger"),
      input: {
        id,
        name: args.name,
        workflowId: args.workflow_id,
        enabled: args.enabled,
        config: configOf(args),
        variableMapping: args.variable_mapping,
      },
      context,
    })
    const { trigger } = z.object({ trigger: z.unknown() }).parse(reply)
    return `${id === undefined ? "Created." : "Saved."}\n${renderValue(trigger)}`
  },
})

const withoutUndefined = (fields: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
