/** JSON text with a schema. Errors name the path and the expected type, never the value: it may be a secret. */
import { z } from "zod"

/** Text from outside the program: `undefined` when it is not JSON (no JSON text means `undefined`). */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Text that the program stored itself. A mismatch is a fault of the program or of the disk: it throws. */
export const readJson = <Schema extends z.ZodType>(
  schema: Schema,
  text: string,
): z.output<Schema> => {
  const parsed = schema.safeParse(parseJson(text))
  if (parsed.success) return parsed.data
  throw new Error(`stored JSON does not match its schema: ${describe(parsed.error)}`)
}

/** A text column that holds JSON, as a field of a row schema: it is parsed together with the row. */
export const jsonColumn = <Schema extends z.ZodType>(schema: Schema) =>
  z.string().transform(parseColumn).pipe(schema)

/** The same for a column that may be NULL, which is `undefined` here: the JSON itself may be `null`. */
export const optionalJsonColumn = <Schema extends z.ZodType>(schema: Schema) =>
  z
    .string()
    .nullable()
    .transform((text, context) => (text === null ? undefined : parseColumn(text, context)))
    .pipe(schema.optional())

const parseColumn = (text: string, context: z.core.$RefinementCtx): unknown => {
  const value = parseJson(text)
  if (value === undefined) context.addIssue({ code: "custom", message: "not JSON" })
  return value
}

const describe = (error: z.ZodError): string => {
  const [issue] = error.issues
  const path = issue?.path.join(".") ?? ""
  const message = (issue?.message ?? "malformed").replace(/^Invalid input: /, "")
  return path === "" ? message : `${path}: ${message}`
}
