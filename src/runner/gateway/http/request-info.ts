/** Facts about the sender of a request, from its head. Pure. */
import type { RequestHead } from "./head.ts"

/** A browser will show the response as a page. */
export const isPage = (head: RequestHead): boolean => {
  if (head.method !== "GET") return false
  const destination = valueOf(head, "sec-fetch-dest")
  if (destination !== undefined) return ["document", "iframe", "frame"].includes(destination)
  return valueOf(head, "accept")?.includes("text/html") === true
}

export const valueOf = (head: RequestHead, name: string): string | undefined =>
  head.headers.find(({ key }) => key === name)?.value

export const schemeOf = (head: RequestHead): "http" | "https" =>
  valueOf(head, "x-forwarded-proto")?.toLowerCase() === "https" ? "https" : "http"

const LOCAL_HOST = /^(?:localhost|[^:]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i
const LOCAL_PEER = /^(?:127\.|::1$|::ffff:127\.)/

/** Plain HTTP from this machine to itself, where browsers do not keep a Secure cookie. */
export const isLocal = (head: RequestHead, peer: string): boolean =>
  schemeOf(head) === "http" && LOCAL_HOST.test(head.host) && LOCAL_PEER.test(peer)

/** OpenCode's password is sent with Basic; any other Authorization is not for OpenCode. */
export const hasBasicAuthorization = (head: RequestHead): boolean =>
  valueOf(head, "authorization")?.toLowerCase().startsWith("basic ") === true
