/**
 * HTTP calls to the API of a sandbox provider: a deadline for each call, one meaning for every answer, and errors
 * without credentials. Redirects are not followed, since the next host would receive the key.
 */
import { type Clock, systemClock } from "../../lib/clock.ts"
import { describeError } from "../../lib/log.ts"
import { parseJson } from "../../lib/json.ts"
import { readLimited } from "../../lib/read-limited.ts"
import { redactError } from "../core/redact.ts"
import type { ProviderResult } from "./contract.ts"

export interface HttpApiOptions {
  /** Without a slash at its end. */
  readonly base: string
  /** The path of a unix socket on which the API listens. */
  readonly unix?: string
  /** Certificates that sign the API's own certificate, in PEM. Absent: those of the system. */
  readonly ca?: () => string | undefined
  /** Read for each call: a token file may have been renewed. */
  readonly headers?: () => Readonly<Record<string, string>>
  /** Values that no error may contain. */
  readonly secrets: () => readonly string[]
  /** For calls without a deadline of their own. */
  readonly deadlineMs?: number
  /** Measures the deadlines. Absent: the system's. */
  readonly clock?: Clock
}

export interface HttpCall {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** Begins with a slash; its parts are percent-encoded by the caller. */
  readonly path: string
  /** Entries without a value are left out. */
  readonly query?: Readonly<Record<string, string | undefined>>
  /** Sent as JSON. */
  readonly json?: unknown
  readonly body?: Uint8Array<ArrayBuffer> | string
  readonly headers?: Readonly<Record<string, string>>
  readonly limit?: AbortSignal
  readonly deadlineMs?: number
  /** Values of this call that no error may contain, such as the environment of a sandbox. */
  readonly secrets?: readonly string[]
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly bytes: Uint8Array
  readonly text: string
  /** Undefined if the body is not JSON. */
  readonly json: unknown
}

/** No answer came, or not all of it: the call may have been carried out. */
export interface NoAnswer {
  readonly status: undefined
  readonly why: string
}

export interface AnswerRules<T> {
  /** Reads the value of a successful answer. Undefined: the answer is not understood, so the result is in doubt. */
  readonly read: (answer: HttpAnswer) => T | undefined
  /** Answers outside 200 to 299 that mean success, such as "is paused already". */
  readonly isDone?: (answer: HttpAnswer) => boolean
  /** Answers in which the provider says that the object does not exist. Absent: a 404 with a JSON object as its body. */
  readonly isMissing?: (answer: HttpAnswer) => boolean
  /** Answers in the 400 range that are in doubt although a refusal is usual for their status. */
  readonly isUnsure?: (answer: HttpAnswer) => boolean
}

export interface HttpApi {
  /** For calls whose successful answer has no value. */
  readonly done: (
    call: HttpCall,
    rules?: Omit<AnswerRules<true>, "read">,
  ) => Promise<ProviderResult<void>>
  readonly send: (call: HttpCall) => Promise<HttpAnswer | NoAnswer>
  readonly call: <T>(call: HttpCall, rules: AnswerRules<T>) => Promise<ProviderResult<T>>
  /** The result of an answer that `send` gave. */
  readonly resultOf: <T>(
    call: HttpCall,
    answer: HttpAnswer | NoAnswer,
    rules: AnswerRules<T>,
  ) => ProviderResult<T>
}

const DEADLINE_MS = 30_000
const MAX_BODY = 16 * 1024 * 1024
const MAX_WAIT_MS = 10 * 60_000
/** The request timed out, conflicts with another one, came too early, or is one of too many: the next may succeed. */
const UNSURE = new Set([408, 409, 423, 425, 429])

/** A 404 with a JSON object as its body. A proxy in between that does not know the path answers 404, too, with a page. */
const isApiNotFound = ({ status, json }: HttpAnswer): boolean =>
  status === 404 && typeof json === "object" && json !== null

/** How long to wait by a Retry-After header: seconds, or a date. */
export const retryAfterMs = (header: string | null, now: number): number | undefined => {
  const text = header?.trim() ?? ""
  if (text === "") return undefined
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), MAX_WAIT_MS)
}

/** The sentence in the body of an error. */
const messageIn = ({ json, text }: HttpAnswer): string => {
  if (typeof json !== "object" || json === null) return text.trim()
  const fields = json as Readonly<Record<string, unknown>>
  for (const name of ["message", "error", "cause", "detail"]) {
    const value = fields[name]
    if (typeof value === "string" && value !== "") return value
    if (typeof value === "object" && value !== null && "message" in value)
      return String(value.message)
  }
  return text.trim()
}

export const createHttpApi = (options: HttpApiOptions): HttpApi => {
  const clock = options.clock ?? systemClock
  const queryOf = (query: HttpCall["query"] = {}): string => {
    const given = Object.entries(query).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    )
    return given.length === 0 ? "" : `?${new URLSearchParams(given).toString()}`
  }

  const clean = (call: HttpCall, text: string): string =>
    redactError(text, [...options.secrets(), ...(call.secrets ?? [])])

  const send: HttpApi["send"] = async (call) => {
    const what = `${call.method} ${call.path}`
    const deadline = new AbortController()
    const cancel = clock.after(call.deadlineMs ?? options.deadlineMs ?? DEADLINE_MS, () =>
      deadline.abort(),
    )
    const signal = call.limit ? AbortSignal.any([call.limit, deadline.signal]) : deadline.signal
    const ca = options.ca?.()
    try {
      const response = await fetch(`${options.base}${call.path}${queryOf(call.query)}`, {
        method: call.method,
        headers: {
          accept: "application/json",
          ...(call.json !== undefined && { "content-type": "application/json" }),
          ...options.headers?.(),
          ...call.headers,
        },
        redirect: "manual",
        signal,
        // A kept connection that the server has closed would fail the next call, which cannot simply be repeated.
        keepalive: false,
        // Without a limit of its own for idle connections, which is shorter than some deadlines: the signal decides.
        timeout: false,
        ...(call.json !== undefined && { body: JSON.stringify(call.json) }),
        ...(call.body !== undefined && { body: call.body }),
        ...(options.unix !== undefined && { unix: options.unix }),
        ...(ca !== undefined && { tls: { ca } }),
      })
      const bytes = await readLimited(response, MAX_BODY)
      if (!bytes) return { status: undefined, why: `${what}: the answer is too long` }
      const text = new TextDecoder().decode(bytes)
      const { status, headers } = response
      return { status, headers, bytes, text, json: parseJson(text) }
    } catch (error) {
      const why = signal.aborted ? "no answer in time" : describeError(error)
      return { status: undefined, why: clean(call, `${what}: ${why}`) }
    } finally {
      cancel()
    }
  }

  const resultOf: HttpApi["resultOf"] = (call, answer, rules) => {
    if (answer.status === undefined) return { is: "unknown", why: answer.why }
    const { status, headers } = answer
    const what = `${call.method} ${call.path}`
    if ((status >= 200 && status < 300) || rules.isDone?.(answer)) {
      const value = rules.read(answer)
      if (value !== undefined) return { is: "ok", value }
      return { is: "unknown", why: clean(call, `${what}: the answer is not understood`) }
    }
    if ((rules.isMissing ?? isApiNotFound)(answer)) return { is: "missing" }
    const why = clean(call, `${what}: ${status} ${messageIn(answer)}`)
    const isRefusal = status >= 400 && status < 500 && status !== 404 && !UNSURE.has(status)
    if (isRefusal && !rules.isUnsure?.(answer)) return { is: "refused", why }
    const afterMs = retryAfterMs(headers.get("retry-after"), clock.now())
    return { is: "unknown", why, ...(afterMs !== undefined && { afterMs }) }
  }

  return {
    send,
    resultOf,
    call: async (call, rules) => resultOf(call, await send(call), rules),
    done: async (call, rules) => {
      const result = resultOf(call, await send(call), { ...rules, read: () => true })
      return result.is === "ok" ? { is: "ok", value: undefined } : result
    },
  }
}
