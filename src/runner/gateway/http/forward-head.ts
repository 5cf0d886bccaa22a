/** Rewrites heads: the client's request for the backend, and the backend's response for the client. Pure. */
import type { Header } from "./fields.ts"
import type { RequestHead, ResponseHead } from "./head.ts"
import { ISOLATION } from "./isolation.ts"
import { isOwnSetCookie, withoutOwnCookie, withPathUnder } from "./cookies.ts"

/** Where a request is forwarded to, and under which prefix the client sees that backend. */
export interface ForwardedRequest {
  readonly port: number
  /** Path and query for the backend, without the prefix and the gateway's own parameters. */
  readonly target: string
  /** The backend's path in the gateway, such as `/vscode`; empty when the backend has its own host. */
  readonly prefix: string
  readonly peer: string
  readonly scheme: "http" | "https"
  /** The client's Authorization header is for the backend. */
  readonly passAuthorization: boolean
  /** The gateway's own Authorization for a backend of the runner. */
  readonly authorization?: string | undefined
  readonly upgrade: boolean
  /** Replaces the client's Origin of a WebSocket, for a backend that accepts this one only. */
  readonly socketOrigin?: string | undefined
  /** The backend is the session agent: this replaces every credential of the client, and its Origin. */
  readonly hubAuthorization?: string | undefined
}

/** What only the gateway reads; the session agent gets its own token instead. */
const LOGIN_HEADERS = new Set([
  "cookie",
  "authorization",
  "origin",
  "x-sandpiper-key",
  "sec-websocket-protocol",
])

/** Headers that are not passed on unchanged. */
type Kind =
  | "hop"
  | "replaced"
  | "cookie"
  | "authorization"
  | "set-cookie"
  | "location"
  | "framing"
  | "worker-scope"
  | "clear"

const kinds = new Map<string, Kind>([
  ...[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
  ].map((key) => [key, "hop"] as const),
  // Set by the gateway itself, or not passed on.
  ...["host", "forwarded", "x-real-ip", "expect"].map((key) => [key, "replaced"] as const),
  ["cookie", "cookie"],
  ["authorization", "authorization"],
  ["set-cookie", "set-cookie"],
  ["location", "location"],
  ["content-length", "framing"],
  ["transfer-encoding", "framing"],
  ["service-worker-allowed", "worker-scope"],
  ["clear-site-data", "clear"],
])

export const requestForBackend = (head: RequestHead, request: ForwardedRequest): string => {
  const named = namedByConnection(head.headers)
  let text = `${head.method} ${request.target} HTTP/${head.version}\r\nHost: localhost:${request.port}\r\n`
  for (const { name, key, value } of head.headers) {
    if (named !== undefined && named.includes(key)) continue
    const kind = kinds.get(key)
    if (kind === "hop" || kind === "replaced" || key.startsWith("x-forwarded-")) continue
    if (request.hubAuthorization !== undefined && LOGIN_HEADERS.has(key)) continue
    if (kind === "authorization" && !request.passAuthorization) continue
    if (key === "origin" && request.upgrade && request.socketOrigin !== undefined) continue
    if (kind === "cookie") {
      const rest = withoutOwnCookie(value)
      if (rest !== "") text += `${name}: ${rest}\r\n`
      continue
    }
    text += `${name}: ${value}\r\n`
  }
  if (request.hubAuthorization !== undefined) {
    text += `Authorization: ${request.hubAuthorization}\r\n`
  }
  text += `X-Forwarded-For: ${request.peer}\r\nX-Forwarded-Proto: ${request.scheme}\r\n`
  if (request.authorization !== undefined) text += `Authorization: ${request.authorization}\r\n`
  if (head.host !== "") text += `X-Forwarded-Host: ${head.host}\r\n`
  if (request.prefix !== "") text += `X-Forwarded-Prefix: ${request.prefix}\r\n`
  if (request.upgrade && request.socketOrigin !== undefined) {
    text += `Origin: ${request.socketOrigin}\r\n`
  }
  if (request.upgrade) text += "Connection: Upgrade\r\nUpgrade: websocket\r\n"
  else if (head.version === "1.0") text += "Connection: close\r\n"
  return `${text}\r\n`
}

export interface ForwardedResponse {
  readonly port: number
  readonly prefix: string
  /**
   * The agent decides about the content, or can put another program in the backend's place, and other services have the same
   * origin: a page of it gets an opaque one.
   */
  readonly isolated: boolean
  /** Origins of pages that may show the backend in a frame, besides the backend's own; any page if there are none. */
  readonly framedBy?: readonly string[] | undefined
  /** The gateway's own cookie, new or renewed. */
  readonly setCookie: string | undefined
  /** The WebSocket protocol that the gateway has chosen; the backend knows of none. */
  readonly socketProtocol?: string | undefined
}

/** What happens to the connection after the response. */
export type AfterResponse = "keep-alive" | "close" | "upgrade"

/** `host` is the client's `Host`: a redirect to it stays in the backend. */
export const responseForClient = (
  head: ResponseHead,
  response: ForwardedResponse,
  host: string,
  after: AfterResponse,
): string => {
  const named = namedByConnection(head.headers)
  const isEverywhere = response.isolated && response.prefix === ""
  let text = `HTTP/1.1 ${head.status} ${head.reason}\r\n`
  for (const { name, key, value } of head.headers) {
    const kind = kinds.get(key)
    if (kind === "hop") continue
    // If `Connection` names a framing header, removing it would hide the length of the body from the client.
    if (named !== undefined && named.includes(key) && kind !== "framing") continue
    if (response.socketProtocol !== undefined && key === "sec-websocket-protocol") continue
    // Its paths are not below one prefix: what would count for all of the origin is left out.
    if (isEverywhere && kind !== undefined && FOR_THE_ORIGIN.has(kind)) continue
    if (kind === "set-cookie") {
      if (!isOwnSetCookie(value)) text += `${name}: ${withPathUnder(response.prefix, value)}\r\n`
    } else if (kind === "worker-scope" && response.prefix !== "") {
      // A worker with a wider scope could read the requests to the other services, including their tokens.
      text += `${name}: ${response.prefix}/\r\n`
    } else if (kind === "clear" && response.prefix !== "") {
      // It would also clear the data of the other services and the gateway's cookie.
    } else if (kind === "location") {
      text += `${name}: ${locationForClient(value, response, host)}\r\n`
    } else {
      text += `${name}: ${value}\r\n`
    }
  }
  if (response.isolated) text += `Content-Security-Policy: ${ISOLATION}\r\n`
  if (response.framedBy !== undefined && response.framedBy.length > 0)
    text += `Content-Security-Policy: frame-ancestors 'self' ${response.framedBy.join(" ")}\r\n`
  if (response.setCookie !== undefined) text += `Set-Cookie: ${response.setCookie}\r\n`
  if (after === "upgrade" && response.socketProtocol !== undefined) {
    text += `Sec-WebSocket-Protocol: ${response.socketProtocol}\r\n`
  }
  if (after === "upgrade") text += "Connection: Upgrade\r\nUpgrade: websocket\r\n"
  else if (after === "close") text += "Connection: close\r\n"
  return `${text}\r\n`
}

const FOR_THE_ORIGIN: ReadonlySet<Kind> = new Set(["set-cookie", "worker-scope", "clear"])

const namedByConnection = (headers: readonly Header[]): readonly string[] | undefined => {
  let named: string[] | undefined
  for (const { key, value } of headers) {
    if (key !== "connection" || PLAIN_CONNECTION.has(value)) continue
    named ??= []
    for (const option of value.split(",")) named.push(option.trim().toLowerCase())
  }
  return named
}

const PLAIN_CONNECTION = new Set(["keep-alive", "close", "Upgrade", "upgrade", "Keep-Alive"])

/**
 * A redirect within the backend gets the backend's prefix. A redirect to another host is passed on unchanged; the gateway
 * follows none.
 */
const locationForClient = (
  value: string,
  { port, prefix }: ForwardedResponse,
  host: string,
): string => {
  const inside = insidePath(value, port, host)
  if (inside === undefined) return value
  const known = prefix === "" || inside === prefix || inside.startsWith(`${prefix}/`)
  return known ? inside : `${prefix}${inside}`
}

/** The path of a redirect within the backend; `undefined` for another host or a relative path. */
const insidePath = (value: string, port: number, host: string): string | undefined => {
  if (value.startsWith("/") && !value.startsWith("//")) return value
  const [, authority = "", path = ""] = /^(?:https?:)?\/\/([^/?#\\]*)([/?#].*)?$/i.exec(value) ?? []
  const own = [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`, host.toLowerCase()]
  if (authority === "" || !own.includes(authority.toLowerCase())) return undefined
  return path.startsWith("/") ? path : `/${path}`
}
