/** A call to a webhook's address: its secret is the bearer token, its body is what the trigger gets. */
import type { SharedStore } from "./shared-store.ts"

const MAX_BODY = 1024 * 1024

export const takeHook = async (
  commons: Pick<SharedStore, "hook">,
  trigger: string,
  request: Request,
): Promise<Response> => {
  const text = await request.text()
  if (text.length > MAX_BODY) return new Response("too big", { status: 413 })
  const secret = /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? ""
  const status = commons.hook(trigger, secret, dataOf(text))
  return Response.json({ ok: status === 202 }, { status })
}

const dataOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return { text }
  }
}
