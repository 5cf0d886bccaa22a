/** Sessions of people, by random cookie value: valid for 15 minutes after the last use, and for 12 hours at most. */
import { createHash, randomBytes } from "node:crypto"

export interface Session {
  readonly id: string
  /** The path that the session gives access to, with everything below it. */
  readonly scope: string
  /** The tunnel whose own host the session is for; empty for the gateway's host; ANY_SITE for all of them. */
  readonly site: string
  readonly endsAt: number
  usedAt: number
  /** When the cookie was last sent. */
  cookieAt: number
  /** Open WebSockets: while there is one, the session is in use. */
  sockets: number
}

export interface Sessions {
  /**
   * With a token: the session that this token has opened before, if it is still valid. A program that sends its token
   * with every request would otherwise replace the sessions of people.
   */
  readonly create: (scope: string, site?: string, token?: string) => Session
  /** The session, marked as used, if it is valid for this path of this site. */
  readonly use: (id: string, path: string, site?: string) => Session | undefined
  readonly size: () => number
  /** Removes expired sessions. */
  readonly sweep: () => void
  readonly clear: () => void
}

/** The site of a person's whole session. No tunnel can have this name. */
export const ANY_SITE = "*"
export const IDLE_MS = 15 * 60_000
const MOST_MS = 12 * 3_600_000
const MOST_SESSIONS = 10_000
/** Uses within this time do not change the order below. */
const ORDER_MS = 1000

export const createSessions = (now: () => number, most = MOST_SESSIONS): Sessions => {
  // In the order of their last use, so that the least recently used session is removed first.
  const sessions = new Map<string, Session>()
  /** Ids of sessions by the hash of the token that opened them. */
  const byToken = new Map<string, string>()

  const isExpired = (session: Session): boolean => {
    const at = now()
    return at >= session.endsAt || (session.sockets === 0 && at - session.usedAt >= IDLE_MS)
  }
  const sweep = () => {
    for (const session of sessions.values()) if (isExpired(session)) sessions.delete(session.id)
    for (const [key, id] of byToken) if (!sessions.has(id)) byToken.delete(key)
  }
  const openedBy = (key: string | undefined): Session | undefined => {
    const session = sessions.get((key !== undefined && byToken.get(key)) || "")
    return session === undefined || isExpired(session) ? undefined : session
  }

  return {
    create: (scope, site = "", token) => {
      const key = token === undefined ? undefined : hashOf(site, scope, token)
      const known = openedBy(key)
      if (known !== undefined) return known
      if (sessions.size >= most) sweep()
      if (sessions.size >= most) {
        const [oldest] = sessions.keys()
        if (oldest !== undefined) sessions.delete(oldest)
      }
      const at = now()
      const session: Session = {
        id: randomBytes(32).toString("hex"),
        scope,
        site,
        endsAt: at + MOST_MS,
        usedAt: at,
        cookieAt: at,
        sockets: 0,
      }
      sessions.set(session.id, session)
      if (byToken.size >= most) byToken.clear()
      if (key !== undefined) byToken.set(key, session.id)
      return session
    },
    use: (id, path, site = "") => {
      const session = sessions.get(id)
      if (session === undefined) return undefined
      if (session.site !== ANY_SITE && session.site !== site) return undefined
      if (!isInside(path, session.scope)) return undefined
      const at = now()
      if (isExpired(session)) {
        sessions.delete(id)
        return undefined
      }
      if (at - session.usedAt >= ORDER_MS) {
        sessions.delete(id)
        sessions.set(id, session)
      }
      session.usedAt = at
      return session
    },
    size: () => sessions.size,
    sweep,
    clear: () => {
      sessions.clear()
      byToken.clear()
    },
  }
}

const hashOf = (...texts: readonly string[]): string =>
  createHash("sha256").update(JSON.stringify(texts)).digest("base64")

/** `/vnc` contains `/vnc` and everything below it, but not `/vnc2`. */
export const isInside = (path: string, scope: string): boolean =>
  scope === "/" || path === scope || path.startsWith(scope.endsWith("/") ? scope : `${scope}/`)
