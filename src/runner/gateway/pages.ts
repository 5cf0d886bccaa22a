/** What is said when there is nothing to show: a page for people, JSON for programs. */
import { errorResponse } from "./error-response.ts"
import type { HttpResponse } from "./http/response.ts"
import type { RequestHead } from "./http/head.ts"
import { isPage } from "./http/request-info.ts"
import { RETRY_AFTER_SECONDS } from "./failed-attempts.ts"
import type { Refusal } from "./auth.ts"

const refusals = {
  missing: [401, "unauthorized", "open this address from your session: it needs a token"],
  invalid: [
    401,
    "unauthorized",
    "the token is not valid here or has expired: open it again from your session",
  ],
  "too-many": [429, "too-many-attempts", "too many failed attempts: wait a moment"],
  origin: [
    403,
    "foreign-origin",
    "another site's page may not do this: add it to ALLOWED_ORIGINS if it should",
  ],
} as const

export const refusal = (head: RequestHead, why: Refusal | "origin"): HttpResponse => {
  const [status, code, words] = refusals[why]
  const extra: Record<string, string> =
    why === "too-many" ? { "retry-after": String(RETRY_AFTER_SECONDS) } : {}
  return withHeaders(say(head, status, code, words), extra)
}

export const notFound = (head: RequestHead, words = "there is nothing here"): HttpResponse =>
  say(head, 404, "not-found", words)

/** `title` is our own word for the service; what went wrong in detail is for the log. */
export const backendDown = (
  head: RequestHead,
  title: string,
  why: "down" | "broken",
): HttpResponse => {
  const words =
    why === "down"
      ? `${title} is not answering yet: it may still be starting`
      : `${title} gave an answer that makes no sense`
  if (!isPage(head)) return withHeaders(say(head, 502, "backend-down", words), RETRY)
  const body = page(words, "This page tries again every 2 seconds.", 2)
  return { status: 502, headers: { ...HTML, ...RETRY }, body }
}

export const methodNotAllowed = (head: RequestHead, allow: string): HttpResponse =>
  withHeaders(say(head, 405, "method-not-allowed", `only ${allow} is answered here`), { allow })

export const say = (head: RequestHead, status: number, code: string, words: string): HttpResponse =>
  isPage(head) ? { status, headers: HTML, body: page(words) } : errorResponse(status, code, words)

const RETRY = { "retry-after": "2" }
const HTML = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
  "referrer-policy": "no-referrer",
}

const withHeaders = (
  answer: HttpResponse,
  headers: Readonly<Record<string, string>>,
): HttpResponse => ({
  ...answer,
  headers: { ...answer.headers, ...headers },
})

const page = (title: string, words = "", refreshSeconds?: number): string => {
  const refresh =
    refreshSeconds === undefined ? "" : `<meta http-equiv="refresh" content="${refreshSeconds}">`
  const sentence = `${title.charAt(0).toUpperCase()}${title.slice(1)}.`
  return `<!doctype html><meta charset="utf-8">${refresh}<title>Sandpiper</title>
<style>body{font:16px/1.5 system-ui;margin:20vh auto;max-width:32em;padding:0 1em;color-scheme:light dark}</style>
<h1 style="font-size:1.2em">${escapeHtml(sentence)}</h1><p>${escapeHtml(words)}</p>
`
}

const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;")
