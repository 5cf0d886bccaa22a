/** The cookie of a login to the page. Half of the login: the other half is a key that the page sends itself. */

export const PAGE_COOKIE_NAME = "sandpiper_page"

/** For `/hub` only: the files of the page need no login. */
export const makePageCookie = (value: string, maxAgeSeconds: number, secure: boolean): string =>
  `${PAGE_COOKIE_NAME}=${value}; Path=/hub; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`

/** As a hub makes them: 32 random bytes, in hex or base64url. */
const VALUE = /^(?:[0-9a-f]{64}|[\w-]{43})$/

/**
 * The values in a `Cookie` header that may be a login. All of them: a page of a host below the page's own can set any number
 * of cookies of this name at longer paths, which browsers send before the right one. The size of a head limits their number.
 */
export const pageCookiesIn = (header: string): readonly string[] => {
  const values = header.split(";").flatMap((pair) => {
    const [name, value = ""] = pair.trim().split("=")
    return name === PAGE_COOKIE_NAME && VALUE.test(value) ? [value] : []
  })
  return [...new Set(values)]
}

export const KEY_HEADER = "x-sandpiper-key"
export const SOCKET_PROTOCOL = "sandpiper.1"
/** The key of a WebSocket, which cannot have headers of its own, is one of its protocols. */
export const KEY_PROTOCOL = /(?:^|,)\s*key\.([A-Za-z0-9_-]{1,128})\s*(?:,|$)/
