/** The payloads of `trigger-api`, and how a trigger's data becomes the variables of a workflow. */
import { z } from "zod"
import { triggerConfig } from "../shared-store/rows.ts"
import { Refusal } from "./handler-table.ts"

const text = z.string().min(1)
const record = z.record(z.string(), z.unknown())

export const createPayload = z.object({
  name: text,
  workflowId: text.nullish(),
  enabled: z.boolean().default(true),
  config: triggerConfig,
  variableMapping: record.default({}),
})
export const updatePayload = z.object({
  triggerId: text,
  name: text.optional(),
  workflowId: text.nullish(),
  enabled: z.boolean().optional(),
  config: triggerConfig.optional(),
  variableMapping: record.optional(),
})
export const listPayload = z.object({
  workflowId: text.optional(),
  type: text.optional(),
  enabled: z.boolean().optional(),
})
export const targetPayload = z.looseObject({
  triggerId: text,
  variables: record.optional(),
})

/** A trigger runs in the checkout of its session. */
export const runPayload = targetPayload.refine(
  ({ repoUrl, branch, ref }) => (repoUrl ?? branch ?? ref) === undefined,
  {
    path: ["repoUrl"],
    error:
      "a trigger runs in its session: use run_workflow for another repository, branch or commit",
  },
)

export const withoutSecret = (config: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(
    Object.entries(config).filter(([name]) => name !== "secret" && name !== "secretHash"),
  )

/**
 * `{"pr": "pull_request.number"}` reads a path of the data; a value that is no text is itself. A name of `given` needs no path.
 * The Refusal names a path that the data does not have: a command must not run with another text in its place.
 */
export const mapVariables = (
  mapping: Readonly<Record<string, unknown>>,
  data: unknown,
  given: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> => ({
  ...Object.fromEntries(
    Object.entries(mapping)
      .filter(([name]) => !Object.hasOwn(given, name))
      .map(([name, from]) => [name, typeof from === "string" ? valueAt(data, name, from) : from]),
  ),
  ...given,
})

const valueAt = (data: unknown, name: string, path: string): unknown => {
  let value = data
  for (const key of path.replace(/^\$\.?/, "").split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key))
      throw new Refusal(`variableMapping.${name}: the data of the trigger has no "${path}"`)
    value = (value as Readonly<Record<string, unknown>>)[key]
  }
  return value
}
