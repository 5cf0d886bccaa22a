/** Sessions of people, by random cookie value: valid for 15 minutes after the last use, and for 12 hours at most. */
import { randomBytes } from "node:crypto"

export interface Session {
  readonly id: string
  /** The path that the session gives access to, with everything below it. */
  readonly scope: string
  readonly endsAt: number
  usedAt: number
  /** When the cookie was last sent. */
  cookieAt: number
  /** Open WebSockets: while there is one, the session is in use. */
  sockets: number
}

export interface Sessions {
  readonly create: (scope: string) => Session
  /** The session, marked as used, if it is valid for this path. */
  readonly use: (id: string, path: string) => Session | undefined
  readonly size: () => number
  /** Removes expired sessions. */
  readonly sweep: () => void
  readonly clear: () => void
}

export const IDLE_MS = 15 * 60_000
const MOST_MS = 12 * 3_600_000
const MOST_SESSIONS = 10_000
/** Uses within this time do not change the order below. */
const ORDER_MS = 1000

export const createSessions = (now: () => number, most = MOST_SESSIONS): Sessions => {
  // In the order of their last use, so that the least recently used session is removed first.
  const sessions = new Map<string, Session>()

  const isExpired = (session: Session): boolean => {
    const at = now()
    return at >= session.endsAt || (session.sockets === 0 && at - session.usedAt >= IDLE_MS)
  }
  const sweep = () => {
    for (const session of sessions.values()) if (isExpired(session)) sessions.delete(session.id)
  }

  return {
    create: (scope) => {
      if (sessions.size >= most) sweep()
      if (sessions.size >= most) {
        const [oldest] = sessions.keys()
        if (oldest !== undefined) sessions.delete(oldest)
      }
      const at = now()
      const session: Session = {
        id: randomBytes(32).toString("hex"),
        scope,
        endsAt: at + MOST_MS,
        usedAt: at,
        cookieAt: at,
        sockets: 0,
      }
      sessions.set(session.id, session)
      return session
    },
    use: (id, path) => {
      const session = sessions.get(id)
      if (session === undefined || !isInside(path, session.scope)) return undefined
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
    clear: () => sessions.clear(),
  }
}

/** `/vnc` contains `/vnc` and everything below it, but not `/vnc2`. */
export const isInside = (path: string, scope: string): boolean =>
  scope === "/" || path === scope || path.startsWith(scope.endsWith("/") ? scope : `${scope}/`)
