/**
 * OpenCode's password in a request, as OpenCode reads it: Basic authentication, or `auth_token` in the query. Pure. OpenCode
 * checks it itself; the gateway checks it before it forwards a body, because OpenCode would read an endless one first.
 */
import { sameText } from "../../../lib/constant-time.ts"
import type { RequestHead } from "./head.ts"
import { valueOf } from "./request-info.ts"
import { queryValue, type Target } from "./target.ts"

export const hasBody = ({ framing }: RequestHead): boolean =>
  framing.kind !== "none" && !(framing.kind === "length" && framing.length === 0)

/** False if the password is not known: then no client can have it. */
export const hasOpenCodePassword = (
  head: RequestHead,
  target: Target,
  password: string | undefined,
): boolean => {
  const basic = /^basic +(\S+)$/i.exec(valueOf(head, "authorization") ?? "")?.[1]
  const given = passwordIn(basic) ?? passwordIn(queryValue(target.search, "auth_token"))
  return password !== undefined && given !== undefined && sameText(given, password)
}

const passwordIn = (encoded: string | undefined): string | undefined => {
  const text = encoded === undefined ? "" : Buffer.from(encoded, "base64").toString()
  const at = text.indexOf(":")
  return at === -1 ? undefined : text.slice(at + 1)
}
