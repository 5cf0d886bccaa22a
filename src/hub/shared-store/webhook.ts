/** The HTTP side of a webhook trigger: the bearer token is the trigger's secret, the body is the trigger's data. */
import type { SharedStore } from "./shared-store.ts"

const MAX_BODY_CHARACTERS = 1024 * 1024

export const takeHook = async (
  store: Pick<SharedStore, "hook">,
  trigger: string,
  request: Request,
): Promise<Response> => {
  const text = await request.text()
  if (text.length > MAX_BODY_CHARACTERS)
    return new Response("the body is larger than 1 MiB", { status: 413 })
  const secret = /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? ""
  const status = store.hook(trigger, secret, readBody(text))
  return Response.json({ ok: status === 202 }, { status })
}

/** A body that is not JSON becomes `{ text }`. */
const readBody = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return { text }
  }
}
