/** The runner's requests and their results as frames, derived from the operations table and the runner's own requests. */
import { z } from "zod"
import { operations, wireRequests } from "../operations/index.ts"
import { ownRequestDocs, ownRequests } from "./own-requests.ts"
import { type MessageRow, row, streamed } from "./row.ts"
import { requestId } from "./shapes.ts"

const allRequests = [...wireRequests, ...ownRequests] as const

type AnyRequest = (typeof allRequests)[number]

export type RequestType = AnyRequest["type"]

type Named<Type extends RequestType> = Extract<AnyRequest, { readonly type: Type }>

/** The fields of a request, without its id. */
export type RequestFields<Type extends RequestType> = z.output<Named<Type>["fields"]>

/** The fields of a successful result. */
export type RequestResult<Type extends RequestType> = z.output<Named<Type>["result"]>

type RequestFrames = {
  [Type in RequestType]: {
    type: Type
    requestId: string
    opencodeSessionId?: string | undefined
    seq?: number | undefined
  } & RequestFields<Type>
}

type ResultFrames = {
  [Type in RequestType]: {
    type: `${Type}-result`
    requestId: string
    error?: string | undefined
  } & { [Field in keyof RequestResult<Type>]?: RequestResult<Type>[Field] | undefined }
}

export type RequestFrame<Type extends RequestType = RequestType> = RequestFrames[Type]

/** Has `error` or the fields of the result. The caller checks that all fields are present. */
export type ResultFrame<Type extends RequestType = RequestType> = ResultFrames[Type]

/** The agent session whose tool sends the request. */
const agentSession = { opencodeSessionId: z.string().optional() }

export const requestRows = rowsOf<RequestFrame>(
  allRequests.map(({ type, fields }) =>
    streamed(type, docOf(type), { ...fields.shape, requestId, ...agentSession }),
  ),
)

export const resultRows = rowsOf<ResultFrame>(
  allRequests.map(({ type, result }) =>
    row(`${type}-result`, `Result of \`${type}\`.`, {
      ...result.partial().shape,
      requestId,
      error: z.string().optional(),
    }),
  ),
)

const deadlines: ReadonlyMap<string, number> = new Map(
  allRequests.map(({ type, deadlineMs }) => [type, deadlineMs]),
)

/** After this time without a result the request fails with a timeout. */
export const requestDeadlineMs = (type: RequestType): number => {
  const deadline = deadlines.get(type)
  if (deadline === undefined) throw new Error(`${type} is not a request`)
  return deadline
}

const schemas = new Map(requestRows.map(({ type, schema }) => [type, schema]))

/** Builds a frame from a type and fields that are only known at run time. Throws when they do not match. */
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

/** The docs of all operations that use the request. */
function docOf(type: RequestType): string {
  if (type === "git-token") return ownRequestDocs[type]
  return operations
    .filter(({ served }) => served.by === "session" && served.request.type === type)
    .map(({ doc }) => doc)
    .join(" ")
}

/**
 * In a loop, TypeScript loses the relation between a request's type and its fields. The cast is safe because the frame
 * types above are computed from the same shapes as the schemas.
 */
function rowsOf<Frame>(rows: readonly MessageRow[]): readonly MessageRow<z.ZodType<Frame>>[] {
  return rows as readonly MessageRow<z.ZodType<Frame>>[]
}
