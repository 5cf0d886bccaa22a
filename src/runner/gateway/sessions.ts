/** Who has been let in: random cookie values, each good while it is used and at most for half a day. */
import { randomBytes } from "node:crypto"

export interface Session {
  readonly id: string
  /** The part of the gateway it opens. */
  readonly scope: string
  readonly endsAt: number
  usedAt: number
  /** When the client was last told of the cookie. */
  cookieAt: number
  /** Sockets that it holds open: as long as there is one, it is in use. */
  sockets: number
}

export interface Sessions {
  readonly create: (scope: string) => Session
  /** The session, marked as used, when it is good for this path. */
  readonly use: (id: string, path: string) => Session | undefined
  readonly size: () => number
  /** Forgets what nobody can use any more. */
  readonly sweep: () => void
  readonly clear: () => void
}

export const IDLE_MS = 15 * 60_000
const MOST_MS = 12 * 3_600_000
const MOST_SESSIONS = 10_000
/** Nearer than this, uses count as one for the order below. */
const ORDER_MS = 1000

export const createSessions = (now: () => number, most = MOST_SESSIONS): Sessions => {
  // In the order of their last use: the first is the one that is missed least.
  const sessions = new Map<string, Session>()

  const isOver = (session: Session): boolean => {
    const at = now()
    return at >= session.endsAt || (session.sockets === 0 && at - session.usedAt >= IDLE_MS)
  }
  const sweep = () => {
    for (const session of sessions.values()) if (isOver(session)) sessions.delete(session.id)
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
      if (isOver(session)) {
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

/** `/vnc` holds `/vnc` and all below it, and not `/vnc2`. */
const isInside = (path: string, scope: string): boolean =>
  scope === "/" || path === scope || path.startsWith(scope.endsWith("/") ? scope : `${scope}/`)
