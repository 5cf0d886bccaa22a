/** From the token of a request to a principal: `CLIENT_TOKEN`, an API key, a share link or a JWT. */
import { sameText } from "../../lib/constant-time.ts"
import { hashOf } from "../keys.ts"
import { type ApiKeys, looksLikeApiKey } from "./api-keys.ts"
import { operator, type Principal } from "./principal.ts"
import { looksLikeShareLink, type ShareLinks } from "./share-links.ts"
import type { JwtVerifier } from "./verify-jwt.ts"

export interface AuthenticateOptions {
  /** SHA-256 of `CLIENT_TOKEN`; `undefined` when there is no operator token. */
  readonly clientTokenHash: string | undefined
  readonly verifyJwt: JwtVerifier | undefined
  readonly apiKeys: Pick<ApiKeys, "verify">
  readonly shareLinks: Pick<ShareLinks, "verify">
}

export type Authentication =
  | { readonly ok: true; readonly principal: Principal }
  /** 429: too many wrong tokens came from the address. 503: the identity provider's key set could not be fetched. */
  | { readonly ok: false; readonly status: 401 | 429 | 503; readonly message: string }

/** `session` is the one that the request names: a share link is valid for that session only. */
export const authenticate = async (
  options: AuthenticateOptions,
  token: string,
  session: string | undefined,
): Promise<Authentication> => {
  if (token === "") return refused
  const { clientTokenHash, verifyJwt, apiKeys, shareLinks } = options
  if (clientTokenHash !== undefined && sameText(await hashOf(token), clientTokenHash)) {
    return { ok: true, principal: operator }
  }
  if (looksLikeApiKey(token)) return accepted(await apiKeys.verify(token))
  if (looksLikeShareLink(token)) {
    return accepted(session === undefined ? undefined : await shareLinks.verify(session, token))
  }
  if (verifyJwt === undefined) return refused
  const result = await verifyJwt(token)
  if (result.ok) return result
  return result.reason === "unavailable" ? unavailable : refused
}

const accepted = (principal: Principal | undefined): Authentication =>
  principal ? { ok: true, principal } : refused

const refused: Authentication = {
  ok: false,
  status: 401,
  message: "The token is missing or not valid: Authorization: Bearer <token>.",
}

const unavailable: Authentication = {
  ok: false,
  status: 503,
  message: "The identity provider's keys cannot be read at the moment: try again.",
}
