/** Reads the JSON of a cloud's answer. An unexpected form is not understood, so the result of the call is in doubt. */
import type { z } from "zod"
import type { HttpAnswer } from "./http.ts"

export const jsonAs =
  <Schema extends z.ZodType>(schema: Schema) =>
  ({ json }: HttpAnswer): z.output<Schema> | undefined =>
    schema.safeParse(json).data
