/** Limits per owner on sessions, prompts per minute and stored bytes. Pure: the caller keeps the bucket. */

export interface OwnerLimits {
  readonly sessions: number
  readonly promptsPerMinute: number
  readonly bytes: number
}

export const defaultLimits: OwnerLimits = {
  sessions: 100,
  promptsPerMinute: 60,
  bytes: 10 * 1024 ** 3,
}

export type Limited =
  | { readonly ok: true }
  /** For a response with status 429 and the header `Retry-After`. */
  | { readonly ok: false; readonly retryAfterSeconds: number; readonly sentence: string }

/** Tokens that are left, and when they were counted. */
export interface Bucket {
  readonly tokens: number
  readonly at: number
}

const MINUTE_MS = 60_000
/** Sessions and bytes become free when a person ends or deletes something, so there is no exact time. */
const RETRY_SECONDS = 60

/**
 * A token bucket that holds one minute of prompts. Returns the bucket to keep; a refused prompt takes nothing out. A
 * clock that goes back adds nothing.
 */
export const takePrompt = (
  bucket: Bucket | undefined,
  { promptsPerMinute }: OwnerLimits,
  now: number,
): Limited & { readonly bucket: Bucket } => {
  const elapsed = Math.max(0, now - (bucket?.at ?? now))
  const refilled = (bucket?.tokens ?? promptsPerMinute) + (elapsed / MINUTE_MS) * promptsPerMinute
  const tokens = Math.min(promptsPerMinute, refilled)
  const at = Math.max(now, bucket?.at ?? now)
  if (tokens >= 1) return { ok: true, bucket: { tokens: tokens - 1, at } }
  const wait = promptsPerMinute > 0 ? ((1 - tokens) / promptsPerMinute) * MINUTE_MS : MINUTE_MS
  const retryAfterSeconds = Math.max(1, Math.ceil(wait / 1000))
  const sentence = `The limit of ${promptsPerMinute} prompts per minute is reached: try again in ${retryAfterSeconds} s.`
  return { ok: false, retryAfterSeconds, sentence, bucket: { tokens, at } }
}

export const checkSessions = (running: number, { sessions }: OwnerLimits): Limited =>
  running < sessions
    ? { ok: true }
    : refused(`The limit of ${sessions} sessions is reached: end a session first.`)

/** `adding`: the bytes that the request would store. */
export const checkBytes = (stored: number, adding: number, { bytes }: OwnerLimits): Limited =>
  stored + adding <= bytes
    ? { ok: true }
    : refused(`The limit of ${bytes} stored bytes is reached: delete a session first.`)

const refused = (sentence: string): Limited => ({
  ok: false,
  retryAfterSeconds: RETRY_SECONDS,
  sentence,
})
