/** Calls the gateway's API for a tool: the address and the token are in the agent's environment. */
import { z } from "zod"
import { type Operation, type OperationName, operations } from "../src/wire/operations/index.ts"
import type { ToolContext } from "./tool.ts"

export interface Call {
  readonly operation: Operation
  readonly input: Readonly<Record<string, unknown>>
  readonly context: ToolContext
  /** Tells the calls of one tool call apart, so that each can be repeated without being done twice. */
  readonly part?: string
}

/** A runner that is being replaced is back within seconds. */
const RETRY_MS = 15_000
const RETRY_EVERY_MS = 250

/** The reply's data; what went wrong is thrown in words that say what to do. */
export const callOperation = async (call: Call): Promise<unknown> => {
  const { base, token } = readEnvironment()
  const response = await send(new URL(base), token, call)
  const body: unknown = await response.json().catch(() => undefined)
  if (!response.ok) throw new Error(failureText(response.status, body))
  const done = outcome.safeParse(body)
  if (done.success && (done.data.success === false || done.data.ok === false)) {
    throw new Error(`${call.operation.name} was refused; nothing was done.`)
  }
  return body
}

/** An operation by its name; a name that is not in the table does not compile. */
export const operationNamed = (name: OperationName): Operation => {
  const operation = operations.find((candidate) => candidate.name === name)
  if (!operation) throw new Error(`there is no operation ${name}`)
  return operation
}

const outcome = z.object({ success: z.boolean().optional(), ok: z.boolean().optional() })

const readEnvironment = () => {
  const { SANDPIPER_URL: base, SANDPIPER_API_TOKEN: token } = process.env
  if (!base || !token) {
    throw new Error(
      "This tool works only inside a sandbox of the runner (SANDPIPER_URL is not set).",
    )
  }
  return { base, token }
}

const send = async (base: URL, token: string, call: Call): Promise<Response> => {
  const { method } = call.operation
  const { path, rest } = fillPath(call.operation.path, call.input)
  const url = new URL(path, base)
  const inQuery = method === "GET" || method === "DELETE"
  if (inQuery)
    for (const [name, value] of Object.entries(rest)) url.searchParams.set(name, textOf(value))
  const request: BunFetchRequestInit = {
    method,
    headers: headersOf(token, call),
    signal: call.context.abort,
    // The operation's own deadline ends the wait; a limit here would end it without an answer.
    timeout: false,
    ...(!inQuery && { body: JSON.stringify(rest) }),
  }
  const until = Date.now() + RETRY_MS
  for (;;) {
    try {
      return await fetch(url, request)
    } catch (error) {
      call.context.abort.throwIfAborted()
      // Only what never reached the runner is sent again.
      if (!isRefused(error) || Date.now() > until) throw unreachable(error)
      call.context.metadata({ title: "Waiting for the runner" })
      await Bun.sleep(RETRY_EVERY_MS)
    }
  }
}

/** Who asks: so that an image, an approval or a notice reaches the conversation it belongs to. */
const headersOf = (token: string, { context, operation, part }: Call): Record<string, string> => ({
  authorization: `Bearer ${token}`,
  "content-type": "application/json",
  "x-opencode-session-id": context.sessionID,
  "x-opencode-message-id": context.messageID,
  ...(context.callID && {
    "x-opencode-call-id": context.callID,
    "idempotency-key": [context.sessionID, context.messageID, context.callID, operation.name, part]
      .filter((piece) => piece !== undefined)
      .join(":"),
  }),
})

const fillPath = (pattern: string, input: Readonly<Record<string, unknown>>) => {
  const rest = new Map(Object.entries(input).filter(([, value]) => value !== undefined))
  const path = pattern.replaceAll(/:(\w+)/g, (_, name: string) => {
    const value = textOf(rest.get(name))
    rest.delete(name)
    return encodeURIComponent(value)
  })
  return { path, rest: Object.fromEntries(rest) }
}

const textOf = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "")

const isRefused = (error: unknown): boolean =>
  error instanceof Error &&
  "code" in error &&
  (error.code === "ConnectionRefused" || error.code === "ECONNREFUSED")

const unreachable = (cause: unknown): Error =>
  new Error("The runner of this sandbox cannot be reached. Try again in a minute.", { cause })

const failure = z.object({ error: z.string() })

/** The gateway says what is wrong; what to do about it depends on the kind of failure. */
const failureText = (status: number, body: unknown): string => {
  const said = failure.safeParse(body)
  const what = said.success ? said.data.error : `the runner answered ${status}`
  const advice = adviceOn.get(status)
  return advice === undefined ? what : `${what.replace(/[.\s]+$/, "")}. ${advice}`
}

const adviceOn: ReadonlyMap<number, string> = new Map([
  [400, "Correct this and call the tool again."],
  [401, "The runner does not know this agent; tell the user."],
  [404, "Check the name or id: a list tool shows what there is."],
  [413, "Send something smaller."],
  [501, "This sandbox is not set up for it; go on without, or tell the user."],
  [503, "The session cannot be reached now; try again in a minute."],
  [504, "It may still be carried out: look before you call the tool again."],
])
