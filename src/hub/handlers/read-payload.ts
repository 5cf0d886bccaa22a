/** Reads the payload of a request that carries an action: what is missing or of the wrong form is named. */
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
