/** Calls the gateway's API for a tool. URL and token come from the agent's environment. */
import { z } from "zod"
import { type Operation, type OperationName, operations } from "../src/wire/operations/index.ts"
import type { ToolContext } from "./tool.ts"

export interface Call {
  readonly operation: Operation
  readonly input: Readonly<Record<string, unknown>>
  readonly context: ToolContext
  /** Distinguishes several API calls of one tool call in the idempotency key. */
  readonly keySuffix?: string
}

/** A restarted runner is back within seconds. */
const RETRY_LIMIT_MS = 15_000
const RETRY_INTERVAL_MS = 250

/** Returns the JSON of the response. A failure is thrown as an Error that advises the model what to do. */
export const callOperation = async (call: Call): Promise<unknown> => {
  const { base, token } = readEnvironment()
  const response = await send(new URL(base), token, call)
  const body: unknown = await response.json().catch(() => undefined)
  if (!response.ok) throw new Error(failureText(response.status, body))
  const parsed = outcome.safeParse(body)
  if (parsed.success && (parsed.data.success === false || parsed.data.ok === false)) {
    throw new Error(`${call.operation.name} was refused; nothing was changed.`)
  }
  return body
}

export const operationNamed = (name: OperationName): Operation => {
  const operation = operations.find((candidate) => candidate.name === name)
  if (!operation) throw new Error(`there is no operation ${name}`)
  return operation
}

const outcome = z.object({ success: z.boolean().optional(), ok: z.boolean().optional() })

const readEnvironment = () => {
  const { SANDPIPER_URL: base, SANDPIPER_API_TOKEN: token } = process.env
  if (!base || !token) {
    throw new Error("This tool works only inside a sandbox: SANDPIPER_URL is not set.")
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
    // The runner enforces the deadline of the operation. A timeout here would lose its response.
    timeout: false,
    ...(!inQuery && { body: JSON.stringify(rest) }),
  }
  const retryUntil = Date.now() + RETRY_LIMIT_MS
  for (;;) {
    try {
      return await fetch(url, request)
    } catch (error) {
      call.context.abort.throwIfAborted()
      // Only a refused connection is retried: in any other case the runner may have received the request.
      if (!isConnectionRefused(error) || Date.now() > retryUntil) throw unreachable(error)
      call.context.metadata({ title: "Waiting for the runner" })
      await Bun.sleep(RETRY_INTERVAL_MS)
    }
  }
}

/** The OpenCode ids let the runner assign an image or approval to the right conversation. */
const headersOf = (
  token: string,
  { context, operation, keySuffix }: Call,
): Record<string, string> => ({
  authorization: `Bearer ${token}`,
  "content-type": "application/json",
  "x-opencode-session-id": context.sessionID,
  "x-opencode-message-id": context.messageID,
  ...(context.callID && {
    "x-opencode-call-id": context.callID,
    "idempotency-key": [
      context.sessionID,
      context.messageID,
      context.callID,
      operation.name,
      keySuffix,
    ]
      .filter((item) => item !== undefined)
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

const isConnectionRefused = (error: unknown): boolean =>
  error instanceof Error &&
  "code" in error &&
  (error.code === "ConnectionRefused" || error.code === "ECONNREFUSED")

const unreachable = (cause: unknown): Error =>
  new Error("The runner of this sandbox cannot be reached. Try again in a minute.", { cause })

const failure = z.object({ error: z.string() })

/** The error of the gateway and the advice for its status. */
const failureText = (status: number, body: unknown): string => {
  const parsed = failure.safeParse(body)
  const what = parsed.success ? parsed.data.error : `the runner responded with status ${status}`
  const advice = adviceFor.get(status)
  return advice === undefined ? what : `${what.replace(/[.\s]+$/, "")}. ${advice}`
}

const adviceFor: ReadonlyMap<number, string> = new Map([
  [400, "Correct this and call the tool again."],
  [401, "The runner rejected the API token; tell the user."],
  [404, "Check the name or id with a list tool."],
  [413, "Send less data."],
  [501, "This sandbox is not configured for it; continue without it or tell the user."],
  [503, "The session agent cannot be reached; try again in a minute."],
  [504, "The call may still take effect: check before you call the tool again."],
])
