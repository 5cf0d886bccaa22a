/**
 * Logins of people with a token of their own (API key, JWT, share link). Each request of such a login is made with that
 * token, so it has exactly the rights of the token, until the token expires or is revoked.
 */
import { z } from "zod"
import type { RemotePageLogins } from "../lib/page/page-logins.ts"
import type { Snapshot } from "../wire/clients/conversation.ts"
import type { ListedSession } from "../wire/clients/lobby.ts"
import { randomToken } from "./access/random-token.ts"
import { type PageToken, sealToken } from "./access/seal-token.ts"
import { looksLikeShareLink } from "./access/share-links.ts"
import { hashOf } from "./keys.ts"

export const tokenBody = z.object({
  token: z.string().min(1).max(8192),
  session: z.string().min(1).max(200).optional(),
})

/** Asks the API with a token. */
export type AskApi = (token: string, path: string) => Promise<Response | undefined>

/** The path with which a token is checked: what the page reads first. */
const checkPath = ({ token, session }: PageToken): string | undefined => {
  if (!looksLikeShareLink(token)) return "/sessions?limit=1"
  return session === undefined ? undefined : sessionPath(session)
}

/** Only the channels and the state: no channel has this key. */
const sessionPath = (session: string): string =>
  `/sessions/${encodeURIComponent(session)}?channel=none:none`

/** Undefined if the API does not accept the token; `too-many` after too many wrong ones. */
export const beginTokenLogin = async (
  logins: RemotePageLogins,
  given: PageToken,
  ask: AskApi,
): Promise<
  | { readonly cookie: string; readonly key: string; readonly maxAgeSeconds: number }
  | "too-many"
  | undefined
> => {
  const path = checkPath(given)
  if (path === undefined) return undefined
  const response = await ask(given.token, path)
  await response?.body?.cancel()
  if (response?.status === 429) return "too-many"
  if (response?.status !== 200) return undefined
  const [cookie, key] = [randomToken(), randomToken()]
  const kept = looksLikeShareLink(given.token) ? given : { token: given.token }
  const sealed = await sealToken(cookie, key, kept)
  const who = await hashOf(given.token)
  return { cookie, key, ...(await logins.begin({ cookie, key, sealed, who })) }
}

/** The holder of a share link may read one session and no list: this is the list of that session. */
export const sharedList = async (
  { token, session = "" }: PageToken,
  ask: AskApi,
): Promise<Response | undefined> => {
  const response = await ask(token, sessionPath(session))
  if (response?.status !== 200) return response
  const { state, channels } = (await response.json()) as Pick<Snapshot, "state" | "channels">
  const title = state["title"]
  const ended = (state["session"] as { readonly status?: unknown } | undefined)?.status === "ended"
  const times = channels.map(({ updatedAt }) => updatedAt)
  const row: Partial<ListedSession> = {
    id: session,
    title: typeof title === "string" ? title : "",
    status: ended ? "ended" : "running",
    activeAt: Math.max(0, ...times),
    channels,
  }
  return Response.json({ ok: true, sessions: [row] })
}

/**
 * The API answers 401 to a share link outside of its session. The login itself is valid, so the browser must not take
 * that for the end of its login.
 */
export const isOutside = ({ session }: PageToken, path: string): boolean => {
  if (session === undefined) return false
  const own = `/sessions/${encodeURIComponent(session)}`
  return path !== own && !path.startsWith(`${own}/`)
}
