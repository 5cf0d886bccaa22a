/**
 * Calls from one Durable Object to another, as JSON over `fetch`. The worker forwards only the routes of the HTTP API, so
 * these paths cannot be reached from outside.
 */
import { z } from "zod"
import type { DurableNamespace } from "./runtime-types.ts"
import { Refusal } from "../../handlers/handler-table.ts"
import { FinalFailure, isFinal } from "../../session/final-failure.ts"

const PREFIX = "/calls/"

const response = z.object({
  result: z.unknown().optional(),
  refusal: z.string().optional(),
  final: z.boolean().optional(),
})

/** The result must match `schema`; a refusal of the other object is thrown here. */
export const callObject = async <Schema extends z.ZodType>(
  namespace: DurableNamespace,
  object: string,
  schema: Schema,
  name: string,
  args: readonly unknown[],
): Promise<z.output<Schema>> => {
  const target = namespace.get(namespace.idFromName(object))
  const request = new Request(`http://object${PREFIX}${name}`, {
    method: "POST",
    body: JSON.stringify(args),
  })
  const { result, refusal, final } = response.parse(await (await target.fetch(request)).json())
  if (refusal !== undefined && final === true) throw new FinalFailure(refusal)
  if (refusal !== undefined) throw new Refusal(refusal)
  return schema.parse(result)
}

/** For calls without a result: they return `null`. */
export const nothing = z.null().transform(() => undefined)

type Calls = Readonly<Record<string, (...args: never[]) => unknown>>

/** Handles a call; `undefined` when the request is not a call. An error is returned to the caller as a refusal. */
export const handleCall = async (request: Request, calls: Calls): Promise<Response | undefined> => {
  const { pathname } = new URL(request.url)
  if (!pathname.startsWith(PREFIX)) return undefined
  const name = pathname.slice(PREFIX.length)
  const call = calls[name]
  if (!call) return Response.json({ refusal: `call ${name} does not exist` })
  try {
    // Written by `callObject` of the same deployment, with the arguments of the function of this name.
    const args = (await request.json()) as never[]
    return Response.json({ result: (await call(...args)) ?? null })
  } catch (error) {
    const refusal = error instanceof Error ? error.message : String(error)
    return Response.json({ refusal, final: isFinal(error) })
  }
}
