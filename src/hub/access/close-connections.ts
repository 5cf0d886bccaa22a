/** Closes the connections of a session that may not read it any more, and sets the time of the next check. */
import type { HostedSession } from "./guarded-clients.ts"
import { connectionsToClose, nextExpiry, type OpenConnection } from "./open-connections.ts"
import type { Principal } from "./principal.ts"

export const closeLostConnections = (
  { id, session, access }: HostedSession,
  people: () => readonly OpenConnection[],
  now: number,
  close: (connection: string) => void,
): void => {
  const isActive = (principal: Principal) =>
    principal.kind !== "share-link" || access.shareLinks.isActive(id, principal.link)
  for (const connection of connectionsToClose(people(), access.target(), now, isActive))
    close(connection)
  session.checkConnectionsAt(nextExpiry(people()))
}

export const ACCESS_ENDED = [1008, "access ended"] as const
