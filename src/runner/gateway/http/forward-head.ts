/** What a head becomes on its way through the gateway: a request for the backend, an answer for the client. Pure. */
import type { Header } from "./fields.ts"
import type { RequestHead, ResponseHead } from "./head.ts"
import { isOwnSetCookie, withoutOwnCookie, withPathUnder } from "./cookies.ts"

/** Where a request goes and under which address the client knows that place. */
export interface ForwardedRequest {
  readonly port: number
  /** What the backend is asked for: path and query, the prefix and our own parameters gone. */
  readonly target: string
  /** The part of the path that names the backend, such as `/vscode`; empty when it has a host of its own. */
  readonly prefix: string
  readonly peer: string
  readonly scheme: "http" | "https"
  /** The client's Authorization was meant for the backend. */
  readonly passAuthorization: boolean
  readonly upgrade: boolean
}

/** Headers that are not simply passed on. One look-up for each: every header of every head passes here. */
type Kind =
  | "hop"
  | "ours"
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
  // What only the gateway may say to a backend, or is said anew.
  ...["host", "forwarded", "x-real-ip", "expect"].map((key) => [key, "ours"] as const),
  ["cookie", "cookie"],
  ["authorization", "authorization"],
  ["set-cookie", "set-cookie"],
  ["location", "location"],
  ["content-length", "framing"],
  ["transfer-encoding", "framing"],
  ["service-worker-allowed", "worker-scope"],
  ["clear-site-data", "clear"],
])

export const requestForBackend = (head: RequestHead, passage: ForwardedRequest): string => {
  const named = namedByConnection(head.headers)
  let text = `${head.method} ${passage.target} HTTP/${head.version}\r\nHost: localhost:${passage.port}\r\n`
  for (const { name, key, value } of head.headers) {
    if (named !== undefined && named.includes(key)) continue
    const kind = kinds.get(key)
    if (kind === "hop" || kind === "ours" || key.startsWith("x-forwarded-")) continue
    if (kind === "authorization" && !passage.passAuthorization) continue
    if (kind === "cookie") {
      const rest = withoutOwnCookie(value)
      if (rest !== "") text += `${name}: ${rest}\r\n`
      continue
    }
    text += `${name}: ${value}\r\n`
  }
  text += `X-Forwarded-For: ${passage.peer}\r\nX-Forwarded-Proto: ${passage.scheme}\r\n`
  if (head.host !== "") text += `X-Forwarded-Host: ${head.host}\r\n`
  if (passage.prefix !== "") text += `X-Forwarded-Prefix: ${passage.prefix}\r\n`
  if (passage.upgrade) text += "Connection: Upgrade\r\nUpgrade: websocket\r\n"
  else if (head.version === "1.0") text += "Connection: close\r\n"
  return `${text}\r\n`
}

export interface ForwardedResponse {
  readonly port: number
  readonly prefix: string
  /** Our own cookie, made or renewed. */
  readonly setCookie: string | undefined
}

/** How the client is to take the connection after the head. */
export type Then = "keep-alive" | "close" | "upgrade"

/** `host` is the one that the client named: a redirect to it is one to the backend. */
export const responseForClient = (
  head: ResponseHead,
  passage: ForwardedResponse,
  host: string,
  then: Then,
): string => {
  const named = namedByConnection(head.headers)
  let text = `HTTP/1.1 ${head.status} ${head.reason}\r\n`
  for (const { name, key, value } of head.headers) {
    const kind = kinds.get(key)
    if (kind === "hop") continue
    // A backend that calls its framing hop-by-hop would leave the client without the length of what follows.
    if (named !== undefined && named.includes(key) && kind !== "framing") continue
    if (kind === "set-cookie") {
      if (!isOwnSetCookie(value)) text += `${name}: ${withPathUnder(passage.prefix, value)}\r\n`
    } else if (kind === "worker-scope" && passage.prefix !== "") {
      // A worker with a wider scope would see what the person does in the other services, tokens included.
      text += `${name}: ${passage.prefix}/\r\n`
    } else if (kind === "clear" && passage.prefix !== "") {
      // It would clear what the other services keep, and our cookie.
    } else if (kind === "location") {
      text += `${name}: ${locationForClient(value, passage, host)}\r\n`
    } else {
      text += `${name}: ${value}\r\n`
    }
  }
  if (passage.setCookie !== undefined) text += `Set-Cookie: ${passage.setCookie}\r\n`
  if (then === "upgrade") text += "Connection: Upgrade\r\nUpgrade: websocket\r\n"
  else if (then === "close") text += "Connection: close\r\n"
  return `${text}\r\n`
}

const namedByConnection = (headers: readonly Header[]): readonly string[] | undefined => {
  let named: string[] | undefined
  for (const { key, value } of headers) {
    if (key !== "connection" || PLAIN_CONNECTION.has(value)) continue
    named ??= []
    for (const word of value.split(",")) named.push(word.trim().toLowerCase())
  }
  return named
}

const PLAIN_CONNECTION = new Set(["keep-alive", "close", "Upgrade", "upgrade", "Keep-Alive"])

/**
 * Redirects within the backend come back under its prefix. Those to elsewhere stay what they are: the client
 * decides, the gateway follows none.
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

/** The path of a redirect that stays in the backend, or nothing: another host, or relative to the page. */
const insidePath = (value: string, port: number, host: string): string | undefined => {
  if (value.startsWith("/") && !value.startsWith("//")) return value
  const [, authority = "", path = ""] = /^(?:https?:)?\/\/([^/?#\\]*)([/?#].*)?$/i.exec(value) ?? []
  const own = [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`, host.toLowerCase()]
  if (authority === "" || !own.includes(authority.toLowerCase())) return undefined
  return path.startsWith("/") ? path : `/${path}`
}
