/** A row of the frame tables: type, one-sentence doc and schema of the frame. */
import { z } from "zod"
import { seq } from "./shapes.ts"

/** A row of any type, for code that reads all rows, such as the docs. */
export interface MessageRow<Schema extends z.ZodType = z.ZodType> {
  readonly type: string
  readonly doc: string
  readonly schema: Schema
}

export const row = <const Type extends string, Shape extends z.ZodRawShape>(
  type: Type,
  doc: string,
  shape: Shape,
) => ({ type, doc, schema: z.object({ type: z.literal(type), ...shape }) })

/** A row of the reliable stream. Its frame has a `seq` once the session agent has sent `welcome`. */
export const streamed = <const Type extends string, Shape extends z.ZodRawShape>(
  type: Type,
  doc: string,
  shape: Shape,
) => row(type, doc, { ...shape, ...streamPosition })

const streamPosition = { seq: seq.optional() }
