/** One HTTP call to OpenCode: authorised, with a deadline, and with errors that say what may be done about them. */
import { z } from "zod"
import { describeError } from "../../../lib/log.ts"

export class AgentCallError extends Error {
  override readonly name = "AgentCallError"
  readonly call: string
  /** The HTTP status, or nothing when no answer came. */
  readonly status: number | undefined
  /** OpenCode's own name of the error, such as `SessionBusyError`. */
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
    const outcome = status === undefined ? "got no answer" : `failed with ${status}`
    super(`OpenCode: ${call} ${outcome}: ${detail}`, { cause })
    this.call = call
    this.status = status
    this.errorName = errorName
  }
  /** OpenCode said no; asking again would hear the same. Without an answer it may have done it all the same. */
  get isDefinite(): boolean {
    return this.status !== undefined && this.status < 500
  }
  /** The same call may succeed later: nobody answered, OpenCode is busy or in trouble of its own. */
  get isRetryable(): boolean {
    return this.status === undefined || this.status >= 500 || [408, 409, 429].includes(this.status)
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
      // The deadline above is the only one: the runtime's own would cut a command that thinks for minutes.
      timeout: false,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { status: response.status, ok: response.ok, text: await response.text() }
  }

  return async (method, path, schema, options = {}) => {
    const name = `${method} ${path}`
    const answer = await exchange(method, path, options)
      .catch((error: unknown) => {
        // A kept connection may be dead without our knowing. Reading twice does no harm; anything else might.
        if (method !== "GET" || isGivenUp(error)) throw error
        return exchange(method, path, options)
      })
      .catch((error: unknown) => {
        // The runtime's advice on how to look into it is for nobody who reads this.
        const detail = describeError(error).replace(/ For more information, .*$/s, "")
        throw new AgentCallError(name, undefined, { detail })
      })
    if (!answer.ok) throw new AgentCallError(name, answer.status, errorOf(answer.text))
    const parsed = schema.safeParse(answer.text === "" ? undefined : parseJson(answer.text))
    if (parsed.success) return parsed.data
    throw new AgentCallError(name, answer.status, {
      detail: "its answer has an unexpected form",
      cause: parsed.error,
    })
  }
}

const isGivenUp = (error: unknown): boolean =>
  error instanceof Error && (error.name === "TimeoutError" || error.name === "AbortError")

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const errorBody = z.object({
  name: z.string().optional(),
  _tag: z.string().optional(),
  message: z.string().optional(),
  data: z.object({ message: z.string() }).partial().optional(),
})

/** OpenCode's errors are `{name, data: {message}}` or a page of HTML; a line of either is enough. */
export const errorOf = (text: string): { detail: string; errorName: string | undefined } => {
  const { data: known } = errorBody.safeParse(parseJson(text))
  const errorName = known?.name ?? known?.["_tag"]
  const words = known?.data?.message ?? known?.message ?? errorName ?? text
  // A configuration error names the file and the place in its body; the message alone says neither.
  const detail = errorName?.startsWith("Config") ? `${errorName}: ${text}` : words
  return { detail: detail.slice(0, 500), errorName }
}
