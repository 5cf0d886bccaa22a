/** One row of a table of messages: the type, what it means, and the schema of the whole frame. */
import { z } from "zod"
import { seq } from "./shapes.ts"

/** A row of any type, for readers of the whole table such as the docs. */
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

/** A row of the reliable stream: its frame has a place in it once the stream is agreed on. */
export const streamed = <const Type extends string, Shape extends z.ZodRawShape>(
  type: Type,
  doc: string,
  shape: Shape,
) => row(type, doc, { ...shape, ...place })

const place = { seq: seq.optional() }
