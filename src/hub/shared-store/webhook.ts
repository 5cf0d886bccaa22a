/** The HTTP side of a webhook trigger: the bearer token is the trigger's secret, the body is the trigger's data. */
import { readRequestText } from "../../lib/read-limited.ts"
import { parseLimitedJson } from "../../wire/json-limits.ts"
import { type HookAnswer, noTrigger } from "../handlers/triggers.ts"
import { errorResponse } from "../http-responses.ts"
import type { SharedStore } from "./shared-store.ts"

const MAX_BODY_BYTES = 1024 * 1024

/** The secret comes first: the body of a caller without it is not read. `store` is undefined where there is none of this name. */
export const takeHook = async (
  store: Pick<SharedStore, "hook" | "hookStatus"> | undefined,
  trigger: string,
  request: Request,
): Promise<Response> => {
  const { headers } = request
  const secret = /^Bearer (.+)$/i.exec(headers.get("authorization") ?? "")?.[1] ?? ""
  const known = store?.hookStatus(trigger, secret) ?? noTrigger(trigger)
  if (!store || known.status !== 202) return answered(known)
  const text = await readRequestText(request, MAX_BODY_BYTES)
  if (text === 413)
    return errorResponse(413, `the body for the trigger ${trigger} is larger than 1 MiB: send less`)
  if (text === 408)
    return errorResponse(
      408,
      `the body for the trigger ${trigger} did not come to its end in time: send it again`,
    )
  const delivery = headers.get("idempotency-key") ?? headers.get("x-github-delivery") ?? undefined
  // A body that is not JSON becomes `{ text }`.
  const data = parseLimitedJson(text) ?? { text }
  return answered(store.hook(trigger, { secret, data, delivery }))
}

const answered = (answer: HookAnswer): Response =>
  answer.status === 202
    ? Response.json({ ok: true }, { status: 202 })
    : errorResponse(answer.status, answer.problem)
