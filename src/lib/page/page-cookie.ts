/** The cookie of a login to the page. Half of the login: the other half is a key that the page sends itself. */

export const PAGE_COOKIE_NAME = "sandpiper_page"

/** For `/hub` only: the files of the page need no login. */
export const makePageCookie = (value: string, maxAgeSeconds: number, secure: boolean): string =>
  `${PAGE_COOKIE_NAME}=${value}; Path=/hub; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`

export const KEY_HEADER = "x-sandpiper-key"
export const SOCKET_PROTOCOL = "sandpiper.1"
/** The key of a WebSocket, which cannot have headers of its own, is one of its protocols. */
export const KEY_PROTOCOL = /(?:^|,)\s*key\.([A-Za-z0-9_-]{1,128})\s*(?:,|$)/
