/** The HTTP side of a webhook trigger: the bearer token is the trigger's secret, the body is the trigger's data. */
import { readRequestText } from "../../lib/read-limited.ts"
import { parseLimitedJson } from "../../wire/json-limits.ts"
import { errorResponse } from "../http-responses.ts"
import type { SharedStore } from "./shared-store.ts"

const MAX_BODY_BYTES = 1024 * 1024

/** The secret comes first: the body of a caller without it is not read. */
export const takeHook = async (
  store: Pick<SharedStore, "hook" | "hookStatus">,
  trigger: string,
  request: Request,
): Promise<Response> => {
  const secret = /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? ""
  const known = store.hookStatus(trigger, secret)
  if (known !== 202) return answered(known)
  const text = await readRequestText(request, MAX_BODY_BYTES)
  if (text === 413) return errorResponse(413, "the body is larger than 1 MiB")
  if (text === 408) return errorResponse(408, "the body did not come to its end in time")
  return answered(store.hook(trigger, secret, parseLimitedJson(text) ?? { text }))
}

const answered = (status: number) => Response.json({ ok: status === 202 }, { status })
