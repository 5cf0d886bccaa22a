/** Bodies and refusals of the hub's HTTP API. */
import { z } from "zod"
import { readRequestText } from "../lib/read-limited.ts"
import { STORAGE_FULL } from "../lib/storage-full.ts"
import { parseLimitedJson } from "../wire/json-limits.ts"
import type { RefusalCode, Reply } from "../wire/clients/verbs.ts"

const MAX_BODY = 4 * 1024 * 1024

const jsonObject = z.record(z.string(), z.unknown())

const BAD_BODY = "the body must be a JSON object of at most 4 MB"

/** The body as a JSON object, or the response that refuses it. */
export const readBody = async (
  request: Request,
  limit = MAX_BODY,
): Promise<Readonly<Record<string, unknown>> | Response> => {
  const text = await readRequestText(request, limit)
  if (text === 413) return errorResponse(413, "the body is too large")
  if (text === 408) return errorResponse(408, "the body did not come to its end in time")
  const body = text === "" ? {} : jsonObject.safeParse(parseLimitedJson(text)).data
  return body ?? errorResponse(400, BAD_BODY)
}

/** The body as `schema` reads it, or the response that refuses it. */
export const parseBody = async <Schema extends z.ZodType>(
  request: Request,
  schema: Schema,
  limit?: number,
): Promise<{ readonly data: z.output<Schema> } | Response> => {
  const body = await readBody(request, limit)
  if (body instanceof Response) return body
  const parsed = schema.safeParse(body)
  if (parsed.success) return { data: parsed.data }
  const [issue] = parsed.error.issues
  // A problem of the whole body has no path.
  const place = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.join(".")}: `
  return errorResponse(400, `${place}${issue?.message ?? "malformed"}`)
}

export const errorResponse = (
  status: number,
  message: string,
  retryAfterSeconds?: number,
): Response =>
  Response.json(
    { ok: false, error: { code: `http-${status}`, message } },
    {
      status,
      ...(retryAfterSeconds !== undefined && {
        headers: { "retry-after": String(retryAfterSeconds) },
      }),
    },
  )

export const refusalStatuses: Readonly<Record<RefusalCode, number>> = {
  "bad-request": 400,
  forbidden: 403,
  "not-found": 404,
  "too-late": 409,
  conflict: 409,
  "no-runner": 503,
  "storage-full": 507,
  "too-many": 429,
}

export const replyResponse = (reply: Reply): Response => {
  if (reply.ok) return Response.json(reply)
  const { code, retryAfter } = reply.error
  return Response.json(reply, {
    status: refusalStatuses[code],
    ...(retryAfter !== undefined && { headers: { "retry-after": String(retryAfter) } }),
  })
}

export const storageFullResponse = (): Response =>
  replyResponse({ ok: false, error: { code: "storage-full", message: STORAGE_FULL } })

export const isUpgrade = (request: Request): boolean =>
  request.headers.get("upgrade")?.toLowerCase() === "websocket"

export const notUpgrade = () => errorResponse(426, "this route is a WebSocket")
