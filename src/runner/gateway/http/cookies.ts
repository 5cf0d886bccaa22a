/** The gateway's own cookie among those of the backends: found, made, and kept away from them. Pure. */
import type { Header } from "./fields.ts"

const COOKIE_NAME = "gateway_session"

/** More than these are not looked at: a page can put many of one name, at several paths, in the way of ours. */
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

/** A Cookie header for a backend: all but ours. */
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
 * A backend may set any cookie but the one that opens the gateway. A cookie without a name is sent back as its value
 * alone, which may look just like ours.
 */
export const isOwnSetCookie = (value: string): boolean =>
  isOwnName(value.replace(/^[=\s]+/, "").split("=", 1)[0] ?? "")

const isOwnName = (name: string): boolean => name.trim().toLowerCase() === COOKIE_NAME

/** A cookie's path as the client sees it, so that one backend's cookies are not sent to another. */
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
  /** Plain http to this very machine, where a Secure cookie would not be kept. */
  readonly local: boolean
}

export const makeCookie = ({ value, path, maxAgeSeconds, local }: CookieSettings): string => {
  const where = local ? "SameSite=Lax" : "Secure; SameSite=None; Partitioned"
  return `${COOKIE_NAME}=${value}; Path=${path}; Max-Age=${maxAgeSeconds}; HttpOnly; ${where}`
}
