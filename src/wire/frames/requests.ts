/** The questions and answers on the wire, computed from the operations table. */
import { z } from "zod"
import { operations, wireRequests } from "../operations/index.ts"
import { type MessageRow, row, streamed } from "./row.ts"
import { requestId } from "./shapes.ts"

type AnyRequest = (typeof wireRequests)[number]

export type RequestType = AnyRequest["type"]

type Named<Type extends RequestType> = Extract<AnyRequest, { readonly type: Type }>

/** What a request asks with, beside its id. */
export type RequestFields<Type extends RequestType> = z.output<Named<Type>["fields"]>

/** What a request is answered with when all goes well. */
export type RequestResult<Type extends RequestType> = z.output<Named<Type>["result"]>

type Asked = {
  [Type in RequestType]: {
    type: Type
    requestId: string
    opencodeSessionId?: string | undefined
    seq?: number | undefined
  } & RequestFields<Type>
}

type Answered = {
  [Type in RequestType]: {
    type: `${Type}-result`
    requestId: string
    error?: string | undefined
  } & { [Field in keyof RequestResult<Type>]?: RequestResult<Type>[Field] | undefined }
}

export type RequestFrame<Type extends RequestType = RequestType> = Asked[Type]

/** Has either `error` or the result's fields; that they are all there is for the asker to check. */
export type ResultFrame<Type extends RequestType = RequestType> = Answered[Type]

/** The agent session whose tool asks: what comes of it belongs to that conversation. */
const asker = { opencodeSessionId: z.string().optional() }

export const requestRows = rowsOf<RequestFrame>(
  wireRequests.map(({ type, fields }) =>
    streamed(type, docOf(type), { ...fields.shape, requestId, ...asker }),
  ),
)

export const resultRows = rowsOf<ResultFrame>(
  wireRequests.map(({ type, result }) =>
    row(`${type}-result`, `Answers \`${type}\`.`, {
      ...result.partial().shape,
      requestId,
      error: z.string().optional(),
    }),
  ),
)

const deadlines: ReadonlyMap<string, number> = new Map(
  wireRequests.map(({ type, deadlineMs }) => [type, deadlineMs]),
)

/** How long the session agent may take over a request of this type. */
export const requestDeadlineMs = (type: RequestType): number => {
  const deadline = deadlines.get(type)
  if (deadline === undefined) throw new Error(`${type} is not a request`)
  return deadline
}

const schemas = new Map(requestRows.map(({ type, schema }) => [type, schema]))

/** For askers that take type and fields from the table; throws when they do not fit together. */
export const requestFrame = (
  type: string,
  id: string,
  fields: Readonly<Record<string, unknown>>,
): RequestFrame => {
  const schema = schemas.get(type)
  if (schema === undefined) throw new Error(`${type} is not a request`)
  return schema.parse({ ...fields, type, requestId: id })
}

export const isRequest = <Frame extends { readonly type: string }>(
  frame: Frame,
): frame is Extract<Frame, RequestFrame> => schemas.has(frame.type)

const resultTypes: ReadonlySet<string> = new Set(resultRows.map(({ type }) => type))

export const isResult = <Frame extends { readonly type: string }>(
  frame: Frame,
): frame is Extract<Frame, ResultFrame> => resultTypes.has(frame.type)

/** What a request is for is said once, by the operations that ask it. */
function docOf(type: RequestType): string {
  return operations
    .filter(({ served }) => served.by === "session" && served.request.type === type)
    .map(({ doc }) => doc)
    .join(" ")
}

/**
 * In a loop over the requests the checker cannot follow which fields go with which type. The frame
 * types above are computed from the same shapes as the schemas, so each schema gives its own frame.
 */
function rowsOf<Frame>(rows: readonly MessageRow[]): readonly MessageRow<z.ZodType<Frame>>[] {
  return rows as readonly MessageRow<z.ZodType<Frame>>[]
}
