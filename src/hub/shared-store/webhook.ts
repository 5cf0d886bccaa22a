/** The HTTP side of a webhook trigger: the bearer token is the trigger's secret, the body is the trigger's data. */
import { errorResponse } from "../http-responses.ts"
import type { SharedStore } from "./shared-store.ts"

const MAX_BODY_CHARACTERS = 1024 * 1024

export const takeHook = async (
  store: Pick<SharedStore, "hook">,
  trigger: string,
  request: Request,
): Promise<Response> => {
  const text = await request.text()
  if (text.length > MAX_BODY_CHARACTERS)
    return errorResponse(413, `the body for the trigger ${trigger} is larger than 1 MiB: send less`)
  const { headers } = request
  const secret = /^Bearer (.+)$/i.exec(headers.get("authorization") ?? "")?.[1] ?? ""
  const delivery = headers.get("idempotency-key") ?? headers.get("x-github-delivery") ?? undefined
  const answer = store.hook(trigger, { secret, data: readBody(text), delivery })
  return answer.status === 202
    ? Response.json({ ok: true }, { status: 202 })
    : errorResponse(answer.status, answer.problem)
}

/** A body that is not JSON becomes `{ text }`. */
const readBody = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return { text }
  }
}
