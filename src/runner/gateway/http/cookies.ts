/** The gateway's own cookie: finds it, renders it, and keeps it apart from the backends' cookies. Pure. */
import { PAGE_COOKIE_NAME } from "../../../lib/page/page-cookie.ts"
import type { Header } from "./fields.ts"

const COOKIE_NAME = "gateway_session"

/**
 * All values are returned: a page can set any number of cookies of this name at longer paths, which browsers send before
 * the right one. Their number is limited by the size of a head.
 */
export const ownCookies = (headers: readonly Header[]): Iterable<string> =>
  cookiesNamed(headers, COOKIE_NAME, OWN_PAIR)

export const pageCookies = (headers: readonly Header[]): Iterable<string> =>
  cookiesNamed(headers, PAGE_COOKIE_NAME, PAGE_PAIR)

const cookiesNamed = (headers: readonly Header[], name: string, pair: RegExp): Iterable<string> => {
  const found = new Set<string>()
  for (const { key, value } of headers) {
    if (key !== "cookie" || !value.includes(name)) continue
    const alone = value.slice(name.length + 1)
    if (value.startsWith(`${name}=`) && OWN_VALUE.test(alone)) {
      found.add(alone)
      continue
    }
    for (const [, own] of value.matchAll(pair)) {
      if (own !== undefined && OWN_VALUE.test(own)) found.add(own)
    }
  }
  return found
}

/** The Cookie header for a backend: without the gateway's cookies. */
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
const PAGE_PAIR = /(?:^|;)\s*sandpiper_page\s*=\s*([^;\s]*)/g
const OWN_VALUE = /^[0-9a-f]{64}$/
const OWN_ANYWHERE = /gateway_session|sandpiper_page/i
const OWN_ALONE = /^(?:gateway_session|sandpiper_page)=[0-9a-f]*$/

/**
 * A backend may set any cookie except the gateway's own. A browser sends a cookie without a name as its value only, which
 * may look like the gateway's cookie.
 */
export const isOwnSetCookie = (value: string): boolean =>
  isOwnName(value.replace(/^[=\s]+/, "").split("=", 1)[0] ?? "")

const isOwnName = (name: string): boolean =>
  [COOKIE_NAME, PAGE_COOKIE_NAME].includes(name.trim().toLowerCase())

/**
 * Moves a cookie's path below the backend's prefix, so that it is not sent to other backends. Attributes are read as
 * browsers read them: with blanks around the name, in any case, and the last one of a name counts.
 */
export const withPathUnder = (prefix: string, value: string): string => {
  if (prefix === "" || /^\s*__Host-/i.test(value)) return value
  const [pair = "", ...attributes] = value.split(";")
  const isPath = (attribute: string) => nameOf(attribute) === "path"
  const last = attributes.findLast(isPath)
  if (last === undefined) return value
  const path = last.slice(last.indexOf("=") + 1).trim()
  // Any other path is ignored by browsers, which then use the folder of the request: it is below the prefix.
  const moved = path.startsWith("/") ? [` Path=${underPrefix(prefix, path)}`] : []
  return [pair, ...moved, ...attributes.filter((attribute) => !isPath(attribute))].join(";")
}

const nameOf = (attribute: string): string =>
  (attribute.split("=", 1)[0] ?? "").trim().toLowerCase()

const underPrefix = (prefix: string, path: string): string =>
  path === prefix || path.startsWith(`${prefix}/`) ? path : `${prefix}${path}`

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
