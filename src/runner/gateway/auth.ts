/**
 * The guards of the routes: a person by cookie, token or ticket; the agent's tools by the API token of this boot; the
 * control plane by a control token.
 */
import { decodeJwt, type JWTPayload, jwtVerify } from "jose"
import { sameText } from "../../lib/constant-time.ts"
import { CONTROL_SCOPE } from "../../lib/control-token.ts"
import { createTokenIds, isControlClaims } from "./control-claims.ts"
import { createAttempts, type Attempts } from "../../lib/failed-attempts.ts"
import { makeCookie, ownCookies } from "./http/cookies.ts"
import type { RequestHead } from "./http/head.ts"
import { queryValue, type Target, withoutQuery } from "./http/target.ts"
import type { Access, Key } from "./routes.ts"
import { createSingleUse } from "../../lib/single-use.ts"
import {
  ANY_SITE,
  createSessions,
  IDLE_MS,
  isInside,
  type Session,
  type Sessions,
} from "./sessions.ts"
import { createTickets, type Tickets } from "./tickets.ts"

export interface AuthOptions {
  /** The session of this sandbox: a token for another session is invalid. */
  readonly sessionId: string
  /** The key of people's tokens; without it every token is invalid. */
  readonly jwtSecret: string | undefined
  readonly apiToken: string
  readonly now: () => number
  /** The tunnel that a host names; empty for the gateway's own host. Cookies and tickets of one are not valid for another. */
  readonly siteOf?: (host: string) => string
  /** A person has opened a path with a token, for the log. */
  readonly onOpened?: (sub: string, path: string) => void
}

export interface PersonGrant {
  readonly session: Session
  /** The cookie is new or its lifetime must be renewed, so it is to be sent. */
  readonly cookieDue: boolean
  /** Only the cookie identified the client, so a page of another site may have sent the request. */
  readonly byCookie: boolean
  /** The query without the gateway's own parameters. */
  readonly search: string
  /** The Authorization header is not the gateway's, so the backend gets it. */
  readonly passAuthorization: boolean
}

export type Refusal = "missing" | "invalid" | "too-many"

/** What the guard of each access returns for a caller that may pass. */
export interface Grants {
  readonly open: true
  readonly observer: true
  readonly person: PersonGrant
  readonly tool: true
  readonly control: true
  readonly opencode: true
  readonly "tool+control": KeyGrant
  readonly "person+control": KeyGrant
  readonly "tool+person+control": KeyGrant
}

/** Which key has opened a route that several keys open. */
export type KeyGrant =
  | { readonly by: "tool" | "control" }
  | { readonly by: "person"; readonly person: PersonGrant }

/** Synchronous where possible: a request with a cookie is decided without a promise. */
type Guard<Grant> = (
  head: RequestHead,
  target: Target,
  peer: string,
) => Grant | Refusal | Promise<Grant | Refusal>

export interface Auth {
  readonly guards: { readonly [Kind in Access]: Guard<Grants[Kind]> }
  /** Replaces the key of people's tokens. If it differs from the old key, cookies and tickets become invalid. */
  readonly changeJwtSecret: (jwtSecret: string | undefined) => void
  readonly sessions: Sessions
  readonly tickets: Tickets
  readonly attempts: Attempts
}

const SHORTEST_SECRET = 16
const LONGEST_TOKEN = 4096
const TOLERANCE_SECONDS = 30
/** The cookie's lifetime is renewed at most this often. */
const RENEW_MS = 60_000
const BEARER = /^bearer +([^\s]+)$/i

export const createAuth = (options: AuthOptions): Auth => {
  const { sessionId, jwtSecret, apiToken, now } = options
  let secret = jwtSecret
  let key = keyOf(jwtSecret)
  const sessions = createSessions(now)
  const tickets = createTickets(now)
  const attempts = createAttempts(now)
  const siteOf = options.siteOf ?? (() => "")
  const links = createSingleUse(now)
  const controlIds = createTokenIds(now)

  const refuse = (peer: string): Refusal => (attempts.failed(peer) ? "too-many" : "invalid")
  const isApiToken = (token: string): boolean => sameText(token, apiToken)

  const claimsOf = async (token: string): Promise<JWTPayload | undefined> => {
    const usedKey = key
    if (usedKey === undefined || token.length > LONGEST_TOKEN) return undefined
    try {
      const { payload } = await jwtVerify(token, usedKey, {
        algorithms: ["HS256"],
        requiredClaims: ["exp", "sub", "sid"],
        clockTolerance: TOLERANCE_SECONDS,
        currentDate: new Date(now()),
      })
      // The key may have been replaced while the token was verified.
      const isValid =
        usedKey === key &&
        payload.sub !== "" &&
        payload["sid"] === sessionId &&
        payload["scope"] !== CONTROL_SCOPE
      return isValid ? payload : undefined
    } catch {
      return undefined
    }
  }

  const isControlToken = async (token: string): Promise<boolean> => {
    const usedKey = key
    if (usedKey === undefined || token.length > LONGEST_TOKEN) return false
    // The ids are forgotten when the key changes.
    if (controlIds.isAccepted(token)) return true
    try {
      const { payload } = await jwtVerify(token, usedKey, {
        algorithms: ["HS256"],
        requiredClaims: ["exp", "iat", "jti", "sid", "scope"],
        currentDate: new Date(now()),
      })
      const { jti = "", exp = 0 } = payload
      return (
        usedKey === key &&
        isControlClaims(payload, sessionId, now()) &&
        controlIds.belongs(jti, token, exp * 1000)
      )
    } catch {
      return false
    }
  }

  /** A link's token has an id and opens one path, once. Other tokens open every path. */
  const scopeOf = (
    { jti, exp = 0, path = "/" }: JWTPayload,
    target: Target,
  ): string | undefined => {
    if (typeof path !== "string" || !isInside(target.path, path)) return undefined
    if (jti === undefined) return path
    const isFirst = links.accept(jti, (exp + TOLERANCE_SECONDS) * 1000)
    return isFirst ? path : undefined
  }

  /** A token for this gateway, valid or not: it must not reach a backend. */
  const isGatewayToken = (token: string | undefined): boolean => {
    if (token === undefined || token.length > LONGEST_TOKEN) return false
    if (isApiToken(token)) return true
    try {
      return decodeJwt(token)["sid"] === sessionId
    } catch {
      return false
    }
  }

  const byCookie = (head: RequestHead, target: Target): PersonGrant | undefined => {
    for (const id of ownCookies(head.headers)) {
      const session = sessions.use(id, target.path, siteOf(head.host))
      if (session === undefined) continue
      const cookieDue = now() - session.cookieAt >= RENEW_MS
      const mayHaveToken = target.search.includes("token") || target.search.includes("%")
      const inQuery = mayHaveToken && isGatewayToken(queryValue(target.search, "token"))
      const search = inQuery ? withoutQuery(target.search, ["token"]) : target.search
      const ticket = search.includes("ticket") ? queryValue(search, "ticket") : undefined
      // A ticket that was not necessary must not reach a backend either.
      const hasTicket = ticket !== undefined && tickets.redeem(ticket) !== undefined
      const bearer = bearerOf(head)
      return {
        session,
        cookieDue,
        byCookie: true,
        search: hasTicket ? withoutQuery(search, ["ticket"]) : search,
        passAuthorization: bearer === undefined || !isGatewayToken(bearer),
      }
    }
    return undefined
  }

  const byTicket = (head: RequestHead, target: Target): PersonGrant | undefined => {
    const ticket = queryValue(target.search, "ticket")
    const scope = ticket === undefined ? undefined : tickets.redeem(ticket)
    if (scope === undefined) return undefined
    const session = sessions.create(scope.path, scope.site)
    if (sessions.use(session.id, target.path, siteOf(head.host)) === undefined) return undefined
    const search = withoutQuery(target.search, ["ticket"])
    return { session, cookieDue: true, byCookie: false, search, passAuthorization: true }
  }

  const byToken = async (
    head: RequestHead,
    target: Target,
    peer: string,
  ): Promise<PersonGrant | Refusal> => {
    const inQuery = queryValue(target.search, "token")
    const token = inQuery ?? bearerOf(head)
    if (token === undefined) return "missing"
    const claims = await claimsOf(token)
    const scope = claims && scopeOf(claims, target)
    // A link opens a path of the gateway's own host; on the host of a tunnel the same path is another one.
    const site = scope === "/" ? ANY_SITE : ""
    const isElsewhere = site === "" && siteOf(head.host) !== ""
    if (claims === undefined || scope === undefined || isElsewhere) return refuse(peer)
    options.onOpened?.(claims.sub ?? "", target.path)
    return {
      // A program sends its token with every request; a person's browser sends it once, to log in.
      session: sessions.create(scope, site, inQuery === undefined ? token : undefined),
      cookieDue: true,
      byCookie: false,
      search: withoutQuery(target.search, ["token"]),
      passAuthorization: !isGatewayToken(bearerOf(head)),
    }
  }

  const person: Guard<PersonGrant> = (head, target, peer) =>
    byCookie(head, target) ?? byTicket(head, target) ?? byToken(head, target, peer)

  /** The API token and control tokens count in the header only. */
  const anyOf =
    (keys: readonly Key[]): Guard<KeyGrant> =>
    async (head, target, peer) => {
      const token = bearerOf(head)
      if (token !== undefined) {
        if (keys.includes("tool") && isApiToken(token)) return { by: "tool" }
        if (keys.includes("control") && (await isControlToken(token))) return { by: "control" }
      }
      if (keys.includes("person")) {
        const grant = await person(head, target, peer)
        return typeof grant === "string" ? grant : { by: "person", person: grant }
      }
      return token === undefined ? "missing" : refuse(peer)
    }

  return {
    guards: {
      open: () => true,
      observer: async (head, target, peer) => {
        const token = queryValue(target.search, "token") ?? bearerOf(head)
        if (token === undefined) return "missing"
        if (isApiToken(token)) return true
        const claims = await claimsOf(token)
        // The token of a link opens its path and nothing else.
        return (claims !== undefined && claims.jti === undefined) || refuse(peer)
      },
      person,
      tool: (head, _target, peer) => {
        const token = bearerOf(head)
        if (token === undefined) return "missing"
        return isApiToken(token) || refuse(peer)
      },
      control: async (head, _target, peer) => {
        const token = bearerOf(head)
        if (token === undefined) return "missing"
        return (await isControlToken(token)) || refuse(peer)
      },
      opencode: () => true,
      "tool+control": anyOf(["tool", "control"]),
      "person+control": anyOf(["person", "control"]),
      "tool+person+control": anyOf(["tool", "person", "control"]),
    },
    changeJwtSecret: (next) => {
      if (next === secret) return
      key = keyOf(next)
      secret = next
      sessions.clear()
      tickets.clear()
      controlIds.clear()
    },
    sessions,
    tickets,
    attempts,
  }
}

const keyOf = (jwtSecret: string | undefined): Uint8Array | undefined => {
  if (jwtSecret === undefined) return undefined
  if (jwtSecret.length < SHORTEST_SECRET) {
    throw new Error("JWT_SECRET is too short: it must have at least 16 characters")
  }
  return new TextEncoder().encode(jwtSecret)
}

/** `forSocket`: the cookie cannot be renewed over a WebSocket, so it gets the whole remaining lifetime of the session. */
export const cookieOf = (
  session: Session,
  at: number,
  local: boolean,
  forSocket: boolean,
): string => {
  session.cookieAt = at
  const left = session.endsAt - at
  // Rounded up: a millisecond after the login the cookie still has its whole lifetime in seconds.
  const maxAgeSeconds = Math.ceil((forSocket ? left : Math.min(IDLE_MS, left)) / 1000)
  return makeCookie({ value: session.id, path: session.scope, maxAgeSeconds, local })
}

const bearerOf = (head: RequestHead): string | undefined => {
  const header = head.headers.find(({ key }) => key === "authorization")
  return header === undefined ? undefined : BEARER.exec(header.value)?.[1]
}
