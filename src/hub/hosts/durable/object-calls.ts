/**
 * Calls from object to object, as JSON over their fetch. Their paths are none of the hub's addresses, and the worker
 * lets through nothing else: nobody outside can make one.
 */
import type { DurableNamespace } from "./runtime-types.ts"
import { Refusal } from "../../handlers/handler-table.ts"

const PREFIX = "/calls/"

export const callObject = async <Result>(
  namespace: DurableNamespace,
  object: string,
  name: string,
  args: readonly unknown[],
): Promise<Result> => {
  const target = namespace.get(namespace.idFromName(object))
  const request = new Request(`http://object${PREFIX}${name}`, {
    method: "POST",
    body: JSON.stringify(args),
  })
  const answer = (await (await target.fetch(request)).json()) as {
    result?: Result
    refusal?: string
  }
  if (answer.refusal !== undefined) throw new Refusal(answer.refusal)
  return answer.result as Result
}

type Calls = Readonly<Record<string, (...args: never[]) => unknown>>

/** Nothing when the request is no call. What a call throws is for whoever made it. */
export const takeCall = async (request: Request, calls: Calls): Promise<Response | undefined> => {
  const { pathname } = new URL(request.url)
  if (!pathname.startsWith(PREFIX)) return undefined
  const call = calls[pathname.slice(PREFIX.length)]
  if (!call) return Response.json({ refusal: "there is no such call" })
  try {
    const args = (await request.json()) as never[]
    return Response.json({ result: (await call(...args)) ?? null })
  } catch (error) {
    return Response.json({ refusal: error instanceof Error ? error.message : String(error) })
  }
}
