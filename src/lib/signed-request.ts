/**
 * Requests between the hub and the fleet, signed with a key that both know. The signature covers the method, the path, the
 * time, a random number and the body: it is valid for one request, once, within a few minutes.
 */
import { sameText } from "./constant-time.ts"
import { hmacOf } from "./hmac.ts"

export const SIGNATURE_HEADER = "x-sandpiper-signature"

/** Also the largest difference between the clocks of the two sides. */
export const SIGNATURE_WINDOW_MS = 5 * 60_000

interface SignedParts {
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly body: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly nonce: string
}

const signatureOf = (key: string, { method, path, at, nonce, body }: SignedParts) =>
  hmacOf(key, [method, path, at, nonce, body].join("\n"))

/** The value of the header. */
const signRequest = async (key: string, parts: SignedParts): Promise<string> =>
  `t=${parts.at},n=${parts.nonce},s=${await signatureOf(key, parts)}`

const HEADER = /^t=(\d{1,15}),n=([\w-]{16,64}),s=([0-9a-f]{64})$/

export interface SignatureCheck {
  readonly key: string
  readonly now: number
  readonly request: Request
  readonly body: string
  /** True for a number that was not used before; it may be forgotten at `until`. */
  readonly isNew: (nonce: string, until: number) => boolean | Promise<boolean>
}

/** Undefined for a valid request, otherwise what is wrong with it. */
export const problemOfSignature = async (check: SignatureCheck): Promise<string | undefined> => {
  const { key, now, request, body } = check
  const [, time, nonce = "", given = ""] =
    HEADER.exec(request.headers.get(SIGNATURE_HEADER) ?? "") ?? []
  if (time === undefined) return `the header ${SIGNATURE_HEADER} is missing or malformed`
  const at = Number(time)
  const { pathname, search } = new URL(request.url)
  const parts = { method: request.method, path: pathname + search, body, at, nonce }
  if (!sameText(given, await signatureOf(key, parts))) return "the signature is not valid"
  if (Math.abs(now - at) > SIGNATURE_WINDOW_MS) return "the signature is too old"
  // Twice the window: in its last moment the number must not be forgotten between two looks at a clock, nor by a replica whose
  // clock is ahead.
  return (await check.isNew(nonce, at + 2 * SIGNATURE_WINDOW_MS))
    ? undefined
    : "the signature was used before"
}

/** A signed `POST` with a JSON body. */
export const signedPost = async (
  key: string,
  url: string,
  value: unknown,
  now: number,
): Promise<Request> => {
  const { pathname, search } = new URL(url)
  const body = JSON.stringify(value)
  const parts = {
    method: "POST",
    path: pathname + search,
    body,
    at: now,
    nonce: crypto.randomUUID(),
  }
  return new Request(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      [SIGNATURE_HEADER]: await signRequest(key, parts),
    },
    body,
  })
}
