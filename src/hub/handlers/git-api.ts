/** Calls of GitHub's REST API, and its errors. */
import { Refusal } from "./handler-table.ts"

/** One API call. Throws a Refusal with the reason when the git host rejects it. */
export type CallGitHost = (method: string, path: string, body?: object) => Promise<unknown>

const API_TIMEOUT_MS = 25_000

/** The git host or the way to it failed. `retryable`: the same call may succeed later. */
export class GitHostError extends Refusal {
  readonly retryable: boolean
  readonly status: number | undefined
  constructor(message: string, retryable: boolean, status?: number) {
    super(message)
    this.retryable = retryable
    this.status = status
  }
}

/** `body`: GitHub's answer, whose `errors` say what is wrong when the message is only "Validation Failed". */
export const answeredWith = (status: number, body: object): GitHostError => {
  const { message, errors } = record(body)
  const reasons = [text(message), ...new Set(list(errors).map(reasonOf))].filter(Boolean)
  return new GitHostError(
    [`the git host answered ${status}`, ...reasons].join(": "),
    status === 429 || status >= 500,
    status,
  )
}

const reasonOf = (error: unknown): string => {
  if (typeof error === "string") return error
  const { message, field, code, resource } = record(error)
  if (text(message) !== "") return text(message)
  const of = text(resource) === "" ? "" : ` (${text(resource)})`
  return `${[text(field), text(code)].filter(Boolean).join(": ")}${of}`
}

/** Calls GitHub's API with a token. */
export const githubApi =
  (apiUrl: string, token: string): CallGitHost =>
  async (method, path, body) => {
    const response = await fetch(`${apiUrl}${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${token}`,
        Accept: "application/vnd.github+json",
        "User-Agent": "sandpiper",
      },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(API_TIMEOUT_MS),
    }).catch((cause: unknown) => {
      const why = cause instanceof Error && cause.name === "TimeoutError" ? "in time" : "at all"
      // A call that ran out of time has used up the request's time too.
      throw new GitHostError(`the git host did not answer ${why}`, why === "at all")
    })
    const value: unknown = await response.json().catch(() => undefined)
    if (response.ok) return value
    throw answeredWith(response.status, record(value))
  }

export const record = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {}

export const text = (value: unknown): string => (typeof value === "string" ? value : "")

export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
