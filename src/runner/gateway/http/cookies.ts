/** The gateway's own cookie: finds it, renders it, and keeps it apart from the backends' cookies. Pure. */
import type { Header } from "./fields.ts"

const COOKIE_NAME = "gateway_session"

/** At most so many values are tried: a page can set many cookies of this name, at several paths. */
const MOST_VALUES = 8

export const ownCookies = (headers: readonly Header[]): readonly string[] => {
  const found: string[] = []
  for (const { key, value } of headers) {
    if (key !== "cookie" || !value.includes(COOKIE_NAME)) continue
    for (const [, own] of value.matchAll(OWN_PAIR)) {
      if (own !== undefined && found.length < MOST_VALUES) found.push(own)
    }
  }
  return found
}

/** The Cookie header for a backend: without the gateway's cookie. */
export const withoutOwnCookie = (value: string): string => {
  if (!OWN_ANYWHERE.test(value)) return value
  if (OWN_ALONE.test(value)) return ""
  return value
    .split(";")
    .filter((pair) => !isOwnName(pair.split("=", 1)[0] ?? ""))
    .join(";")
    .trim()
}

const OWN_PAIR = /(?:^|;)\s*gateway_session\s*=\s*([^;\s]*)/g
const OWN_ANYWHERE = /gateway_session/i
const OWN_ALONE = /^gateway_session=[0-9a-f]*$/

/**
 * A backend may set any cookie except the gateway's. A browser sends a cookie without a name as its value only, which
 * may look like the gateway's cookie.
 */
export const isOwnSetCookie = (value: string): boolean =>
  isOwnName(value.replace(/^[=\s]+/, "").split("=", 1)[0] ?? "")

const isOwnName = (name: string): boolean => name.trim().toLowerCase() === COOKIE_NAME

/** Moves a cookie's path below the backend's prefix, so that it is not sent to other backends. */
export const withPathUnder = (prefix: string, value: string): string => {
  if (prefix === "" || /^\s*__Host-/i.test(value)) return value
  return value.replace(/(;\s*path=)(\/[^;]*)/i, (whole: string, start: string, path: string) =>
    path === prefix || path.startsWith(`${prefix}/`) ? whole : `${start}${prefix}${path}`,
  )
}

export interface CookieSettings {
  readonly value: string
  readonly path: string
  readonly maxAgeSeconds: number
  /** Plain HTTP to this machine, where browsers do not keep a Secure cookie. */
  readonly local: boolean
}

export const makeCookie = ({ value, path, maxAgeSeconds, local }: CookieSettings): string => {
  const where = local ? "SameSite=Lax" : "Secure; SameSite=None; Partitioned"
  return `${COOKIE_NAME}=${value}; Path=${path}; Max-Age=${maxAgeSeconds}; HttpOnly; ${where}`
}
