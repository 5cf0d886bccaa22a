/**
 * Control tokens: what the control plane of a sandbox presents to its gateway. A JWT (HS256, the session's JWT_SECRET)
 * with `scope: "control"`, a lifetime of at most five minutes, and the claims `sid` and `jti`.
 */
import { SignJWT } from "jose"

export const CONTROL_SCOPE = "control"
export const CONTROL_SECONDS = 5 * 60

export interface ControlTokenInput {
  /** The session's JWT_SECRET. */
  readonly key: string
  readonly sessionId: string
  /** Names this token; two tokens must not have the same one. */
  readonly jti: string
  /** In milliseconds since the epoch. */
  readonly now: number
  readonly seconds?: number
}

export const signControlToken = (input: ControlTokenInput): Promise<string> => {
  const issued = Math.floor(input.now / 1000)
  return new SignJWT({ sid: input.sessionId, scope: CONTROL_SCOPE })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .setJti(input.jti)
    .setIssuedAt(issued)
    .setExpirationTime(issued + (input.seconds ?? CONTROL_SECONDS))
    .sign(new TextEncoder().encode(input.key))
}
