/** What a request's head tells about who sent it and how it came. Pure. */
import type { RequestHead } from "./head.ts"

/** A person's browser is about to show the answer. */
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

/** Plain http from this machine to this machine: a browser keeps no Secure cookie there. */
export const isLocal = (head: RequestHead, peer: string): boolean =>
  schemeOf(head) === "http" && LOCAL_HOST.test(head.host) && LOCAL_PEER.test(peer)

/** OpenCode's password travels so; any other Authorization is for us or for nobody. */
export const hasBasicAuthorization = (head: RequestHead): boolean =>
  valueOf(head, "authorization")?.toLowerCase().startsWith("basic ") === true
