/** One HTTP call to OpenCode, with its password, a deadline and errors that tell a refusal from a missing response. */
import { parseJson } from "../../../lib/json.ts"
import { z } from "zod"
import { describeError } from "../../../lib/log.ts"

export class AgentCallError extends Error {
  override readonly name = "AgentCallError"
  /** The HTTP status; undefined when no response came. */
  readonly status: number | undefined
  /** OpenCode's name for the error, such as `SessionBusyError`. */
  readonly errorName: string | undefined
  constructor(
    call: string,
    status: number | undefined,
    {
      detail,
      errorName,
      cause,
    }: { detail: string; errorName?: string | undefined; cause?: unknown },
  ) {
    const outcome = status === undefined ? "got no response" : `failed with ${status}`
    super(`OpenCode: ${call} ${outcome}: ${detail}`, { cause })
    this.status = status
    this.errorName = errorName
  }
  /** OpenCode refused, and a retry would fail too. After a 5xx or without a response the call may have taken effect. */
  get isDefinite(): boolean {
    return this.status !== undefined && this.status < 500
  }
}

export interface AgentAddress {
  readonly url: string
  readonly password: string
  readonly directory: string
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE"

export interface CallOptions {
  readonly body?: unknown
  readonly deadlineMs?: number
  readonly signal?: AbortSignal | undefined
}

export type Call = <Schema extends z.ZodType>(
  method: Method,
  path: string,
  schema: Schema,
  options?: CallOptions,
) => Promise<z.output<Schema>>

const DEADLINE_MS = 10_000

export const headersFor = ({ password, directory }: AgentAddress): Record<string, string> => ({
  authorization: `Basic ${btoa(`opencode:${password}`)}`,
  "x-opencode-directory": encodeURIComponent(directory),
})

export const createCall = (address: AgentAddress): Call => {
  const headers = headersFor(address)

  const exchange = async (method: Method, path: string, options: CallOptions) => {
    const { body, deadlineMs = DEADLINE_MS, signal } = options
    const deadline = AbortSignal.timeout(deadlineMs)
    const response = await fetch(address.url + path, {
      method,
      headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
      signal: signal ? AbortSignal.any([deadline, signal]) : deadline,
      // Bun's own request timeout would cut a command that runs for minutes; the deadline above is the only one.
      timeout: false,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { status: response.status, ok: response.ok, text: await response.text() }
  }

  return async (method, path, schema, options = {}) => {
    const name = `${method} ${path}`
    const response = await exchange(method, path, options)
      .catch((error: unknown) => {
        // A pooled connection may be dead already. Only a GET is safe to repeat.
        if (method !== "GET" || isTimeoutOrAbort(error)) throw error
        return exchange(method, path, options)
      })
      .catch((error: unknown) => {
        // Bun appends advice for its own users, which is noise in our logs.
        const detail = describeError(error).replace(/ For more information, .*$/s, "")
        throw new AgentCallError(name, undefined, { detail })
      })
    if (!response.ok) throw new AgentCallError(name, response.status, errorOf(response.text))
    const parsed = schema.safeParse(response.text === "" ? undefined : parseJson(response.text))
    if (parsed.success) return parsed.data
    throw new AgentCallError(name, response.status, {
      detail: "the response has an unexpected shape",
      cause: parsed.error,
    })
  }
}

const isTimeoutOrAbort = (error: unknown): boolean =>
  error instanceof Error && (error.name === "TimeoutError" || error.name === "AbortError")

const errorBody = z.object({
  name: z.string().optional(),
  _tag: z.string().optional(),
  message: z.string().optional(),
  data: z.object({ message: z.string() }).partial().optional(),
})

/** OpenCode's error bodies are `{name, data: {message}}` or an HTML page; at most 500 characters are kept. */
export const errorOf = (text: string): { detail: string; errorName: string | undefined } => {
  const { data: known } = errorBody.safeParse(parseJson(text))
  const errorName = known?.name ?? known?.["_tag"]
  const message = known?.data?.message ?? known?.message ?? errorName ?? text
  // A config error names the file and the position in its body only, not in its message.
  const detail = errorName?.startsWith("Config") ? `${errorName}: ${text}` : message
  return { detail: detail.slice(0, 500), errorName }
}
