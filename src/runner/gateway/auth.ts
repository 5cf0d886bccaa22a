/** Who may pass: a person by cookie, token or ticket; the agent's tools by this boot's API token. */
import { decodeJwt, jwtVerify } from "jose"
import { sameText } from "../../lib/constant-time.ts"
import { createAttempts, type Attempts } from "./failed-attempts.ts"
import { makeCookie, ownCookies } from "./http/cookies.ts"
import type { RequestHead } from "./http/head.ts"
import { queryValue, type Target, withoutQuery } from "./http/target.ts"
import { createSessions, IDLE_MS, type Session, type Sessions } from "./sessions.ts"
import { createTickets, type Tickets } from "./tickets.ts"

export interface AuthOptions {
  /** The session this sandbox belongs to: a token for another one opens nothing. */
  readonly sessionId: string
  /** Key of the tokens; without one no token is good. */
  readonly jwtSecret: string | undefined
  readonly apiToken: string
  readonly now: () => number
}

export interface PersonGrant {
  readonly session: Session
  /** The client does not know this cookie yet, or not that it lasts longer now. */
  readonly cookieDue: boolean
  /** A cookie alone brought the client in: a page elsewhere may have sent it. */
  readonly byCookie: boolean
  /** The query without what was meant for us. */
  readonly search: string
  /** Authorization was not for us. */
  readonly passAuthorization: boolean
}

export type Refusal = "missing" | "invalid" | "too-many"

export interface Auth {
  /** At once when a cookie decides it, which is nearly always. */
  readonly person: (
    head: RequestHead,
    target: Target,
    peer: string,
  ) => PersonGrant | Refusal | Promise<PersonGrant | Refusal>
  readonly tool: (head: RequestHead, peer: string) => Refusal | undefined
  /** For what tells of the sandbox and lets nobody in: the API token, or a person's token. */
  readonly observer: (
    head: RequestHead,
    target: Target,
    peer: string,
  ) => Promise<Refusal | undefined>
  /**
   * The key for the tokens to come. With another one than before, cookies and tickets of before open nothing; with the
   * same one they are as good as the tokens that made them.
   */
  readonly changeJwtSecret: (jwtSecret: string | undefined) => void
  readonly sessions: Sessions
  readonly tickets: Tickets
  readonly attempts: Attempts
}

const SHORTEST_SECRET = 16
const LONGEST_TOKEN = 4096
const TOLERANCE_SECONDS = 30
/** How often a client that keeps coming is told that its cookie lasts longer. */
const RENEW_MS = 60_000
const BEARER = /^bearer +([^\s]+)$/i

export const createAuth = ({ sessionId, jwtSecret, apiToken, now }: AuthOptions): Auth => {
  let current = jwtSecret
  let key = keyOf(jwtSecret)
  const sessions = createSessions(now)
  const tickets = createTickets(now)
  const attempts = createAttempts(now)

  const refuse = (peer: string): Refusal => (attempts.failed(peer) ? "too-many" : "invalid")
  const isApiToken = (token: string): boolean => sameText(token, apiToken)

  const isGood = async (token: string): Promise<boolean> => {
    const used = key
    if (used === undefined || token.length > LONGEST_TOKEN) return false
    try {
      const { payload } = await jwtVerify(token, used, {
        algorithms: ["HS256"],
        requiredClaims: ["exp", "sub", "sid"],
        clockTolerance: TOLERANCE_SECONDS,
        currentDate: new Date(now()),
      })
      // The key may have become another while this one was at work.
      return used === key && payload.sub !== "" && payload["sid"] === sessionId
    } catch {
      return false
    }
  }

  /** Ours by what it says, good or not: such a token is not shown to a backend. */
  const isOurs = (token: string | undefined): boolean => {
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
      const session = sessions.use(id, target.path)
      if (session === undefined) continue
      const cookieDue = now() - session.cookieAt >= RENEW_MS
      const named = target.search.includes("token") || target.search.includes("%")
      const inQuery = named && isOurs(queryValue(target.search, "token"))
      const bearer = bearerOf(head)
      return {
        session,
        cookieDue,
        byCookie: true,
        search: inQuery ? withoutQuery(target.search, ["token"]) : target.search,
        passAuthorization: bearer === undefined || !isOurs(bearer),
      }
    }
    return undefined
  }

  const byTicket = (target: Target): PersonGrant | undefined => {
    const ticket = queryValue(target.search, "ticket")
    const scope = ticket === undefined ? undefined : tickets.redeem(ticket)
    if (scope === undefined) return undefined
    const session = sessions.create(scope)
    if (sessions.use(session.id, target.path) === undefined) return undefined
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
    if (!(await isGood(token))) return refuse(peer)
    return {
      session: sessions.create("/"),
      cookieDue: true,
      byCookie: false,
      search: withoutQuery(target.search, ["token"]),
      passAuthorization: !isOurs(bearerOf(head)),
    }
  }

  return {
    person: (head, target, peer) =>
      byCookie(head, target) ?? byTicket(target) ?? byToken(head, target, peer),
    tool: (head, peer) => {
      const token = bearerOf(head)
      if (token === undefined) return "missing"
      return isApiToken(token) ? undefined : refuse(peer)
    },
    observer: async (head, target, peer) => {
      const token = queryValue(target.search, "token") ?? bearerOf(head)
      if (token === undefined) return "missing"
      return isApiToken(token) || (await isGood(token)) ? undefined : refuse(peer)
    },
    changeJwtSecret: (secret) => {
      if (secret === current) return
      key = keyOf(secret)
      current = secret
      sessions.clear()
      tickets.clear()
    },
    sessions,
    tickets,
    attempts,
  }
}

const keyOf = (jwtSecret: string | undefined): Uint8Array | undefined => {
  if (jwtSecret === undefined) return undefined
  if (jwtSecret.length < SHORTEST_SECRET) {
    throw new Error("the gateway needs a JWT_SECRET of at least 16 characters")
  }
  return new TextEncoder().encode(jwtSecret)
}

/** The cookie that tells the client of its session. `held` is for a socket, after which nothing more can be said. */
export const cookieOf = (session: Session, at: number, local: boolean, held: boolean): string => {
  session.cookieAt = at
  const left = session.endsAt - at
  const maxAgeSeconds = Math.floor((held ? left : Math.min(IDLE_MS, left)) / 1000)
  return makeCookie({ value: session.id, path: session.scope, maxAgeSeconds, local })
}

const bearerOf = (head: RequestHead): string | undefined => {
  const header = head.headers.find(({ key }) => key === "authorization")
  return header === undefined ? undefined : BEARER.exec(header.value)?.[1]
}
