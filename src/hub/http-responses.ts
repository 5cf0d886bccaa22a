/** Bodies and refusals of the hub's HTTP API. */
import { z } from "zod"
import { STORAGE_FULL } from "../lib/storage-full.ts"
import { parseLimitedJson } from "../wire/json-limits.ts"
import type { RefusalCode, Reply } from "../wire/clients/verbs.ts"

const MAX_BODY = 4 * 1024 * 1024

const jsonObject = z.record(z.string(), z.unknown())

/** `undefined` when the body is not a JSON object or is too long. */
export const readBody = async (request: Request): Promise<Record<string, unknown> | undefined> => {
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY) return undefined
  const text = await request.text()
  if (text.length > MAX_BODY) return undefined
  return text === "" ? {} : jsonObject.safeParse(parseLimitedJson(text)).data
}

export const BAD_BODY = "the body must be a JSON object of at most 4 MB"

/** The body as `schema` reads it, or the response that refuses it. */
export const parseBody = async <Schema extends z.ZodType>(
  request: Request,
  schema: Schema,
): Promise<{ readonly data: z.output<Schema> } | Response> => {
  const body = await readBody(request)
  if (!body) return errorResponse(400, BAD_BODY)
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
