/** Which open connections have lost their access: after a change of members, a revocation, or when a token expires. */
import { may } from "./may.ts"
import type { Target } from "./ownership.ts"
import { hasExpired, type Principal } from "./principal.ts"
import type { Action } from "./table.ts"

export interface OpenConnection {
  readonly id: string
  readonly principal: Principal
}

/** Connections receive events until they are closed, so each one must still be allowed to subscribe. */
const NEEDED: Action = "verb:subscribe"

/** `isActive` is false for a share link that has been revoked. */
export const connectionsToClose = (
  connections: readonly OpenConnection[],
  target: Target,
  now: number,
  isActive: (principal: Principal) => boolean,
): readonly string[] =>
  connections
    .filter(
      ({ principal }) =>
        principal.kind !== "runner" &&
        (hasExpired(principal, now) || !isActive(principal) || !may(principal, NEEDED, target)),
    )
    .map(({ id }) => id)

/** When to check again because a token expires; `undefined` when no token does. */
export const nextExpiry = (connections: readonly OpenConnection[]): number | undefined => {
  const times = connections.flatMap(({ principal: { expiresAt } }) =>
    expiresAt === undefined ? [] : [expiresAt],
  )
  return times.length === 0 ? undefined : Math.min(...times)
}
