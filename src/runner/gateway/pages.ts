/** Error responses of the gateway itself: an HTML page for browsers, JSON for programs. */
import { errorResponse } from "./error-response.ts"
import type { HttpResponse } from "./http/response.ts"
import type { RequestHead } from "./http/head.ts"
import { isPage } from "./http/request-info.ts"
import { RETRY_AFTER_SECONDS } from "../../lib/failed-attempts.ts"
import type { Refusal } from "./auth.ts"

const refusals = {
  missing: [401, "unauthorized", "a token is missing: open this address from your session"],
  invalid: [
    401,
    "unauthorized",
    "the token is invalid here or has expired: open this address again from your session",
  ],
  "too-many": [429, "too-many-attempts", "too many failed attempts: wait a few seconds"],
  "not-logged-in": [
    401,
    "not-logged-in",
    "this browser is not logged in: run `sandpiper link` and open the address that it prints",
  ],
  "bad-code": [
    401,
    "bad-code",
    "this login link was used before or has expired: run `sandpiper link` for another one",
  ],
  host: [
    421,
    "unknown-host",
    "this host is not served here: set PAGE_ORIGIN and SANDBOX_ORIGIN to serve other names",
  ],
  origin: [
    403,
    "foreign-origin",
    "a page of another site may not do this: to permit it, add the site to ALLOWED_ORIGINS",
  ],
} as const

export const refusal = (head: RequestHead, why: Refusal | keyof typeof refusals): HttpResponse => {
  const [status, code, text] = refusals[why]
  const extra: Record<string, string> =
    why === "too-many" ? { "retry-after": String(RETRY_AFTER_SECONDS) } : {}
  return withHeaders(message(head, status, code, text), extra)
}

export const notFound = (head: RequestHead, text = "there is nothing at this address") =>
  message(head, 404, "not-found", text)

/** `title` is the gateway's own name for the service; details of the failure are not sent. */
export const backendDown = (
  head: RequestHead,
  title: string,
  why: "down" | "broken",
): HttpResponse => {
  const text =
    why === "down"
      ? `${title} does not respond yet: it may still be starting`
      : `${title} sent an invalid response`
  if (!isPage(head)) return withHeaders(message(head, 502, "backend-down", text), RETRY)
  const body = page(text, "This page reloads every 2 seconds.", 2)
  return { status: 502, headers: { ...HTML, ...RETRY }, body }
}

export const methodNotAllowed = (head: RequestHead, allow: string): HttpResponse =>
  withHeaders(message(head, 405, "method-not-allowed", `only ${allow} is allowed here`), { allow })

export const message = (
  head: RequestHead,
  status: number,
  code: string,
  text: string,
): HttpResponse =>
  isPage(head) ? { status, headers: HTML, body: page(text) } : errorResponse(status, code, text)

const RETRY = { "retry-after": "2" }
const HTML = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
  "referrer-policy": "no-referrer",
}

const withHeaders = (
  response: HttpResponse,
  headers: Readonly<Record<string, string>>,
): HttpResponse => ({
  ...response,
  headers: { ...response.headers, ...headers },
})

const page = (title: string, text = "", refreshSeconds?: number): string => {
  const refresh =
    refreshSeconds === undefined ? "" : `<meta http-equiv="refresh" content="${refreshSeconds}">`
  const sentence = `${title.charAt(0).toUpperCase()}${title.slice(1)}.`
  return `<!doctype html><meta charset="utf-8">${refresh}<title>Sandpiper</title>
<style>body{font:16px/1.5 system-ui;margin:20vh auto;max-width:32em;padding:0 1em;color-scheme:light dark}</style>
<h1 style="font-size:1.2em">${escapeHtml(sentence)}</h1><p>${escapeHtml(text)}</p>
`
}

const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;")
