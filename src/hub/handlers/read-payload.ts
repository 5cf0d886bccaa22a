/** Checks the payload of an action request. The Refusal names the first field that is missing or invalid. */
import type { z } from "zod"
import { Refusal } from "./handler-table.ts"

export const readPayload = <Schema extends z.ZodType>(
  schema: Schema,
  payload: unknown,
): z.output<Schema> => {
  const parsed = schema.safeParse(payload ?? {})
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue?.path.join(".") ?? ""
  const what = (issue?.message ?? "is malformed").replace(/^Invalid input: /, "")
  throw new Refusal(where === "" ? what : `${where}: ${what}`)
}
