/** Decides whether the verified claims of a JWT are those of a control token. The signature is checked before. */
import type { JWTPayload } from "jose"
import { CONTROL_SCOPE, CONTROL_SECONDS } from "../../lib/control-token.ts"

/** How far the clock of the signer may be ahead of this one. */
const AHEAD_SECONDS = 30
const LONGEST_ID = 128

/** `now` in milliseconds since the epoch. A claim that is absent or of another type is a refusal. */
export const isControlClaims = (
  { scope, sid, jti, iat, exp }: JWTPayload,
  sessionId: string,
  now: number,
): boolean => {
  const seconds = now / 1000
  return (
    scope === CONTROL_SCOPE &&
    sid === sessionId &&
    typeof jti === "string" &&
    jti !== "" &&
    jti.length <= LONGEST_ID &&
    typeof iat === "number" &&
    typeof exp === "number" &&
    iat <= seconds + AHEAD_SECONDS &&
    exp > seconds &&
    exp > iat &&
    exp - iat <= CONTROL_SECONDS
  )
}

export interface TokenIds {
  /** True for a token that was accepted before and has not expired: its signature need not be checked again. */
  readonly isAccepted: (token: string) => boolean
  /** False if another token has used this id. `expiresAt` in milliseconds since the epoch. */
  readonly belongs: (jti: string, token: string, expiresAt: number) => boolean
  readonly clear: () => void
}

/**
 * Remembers which token has which id until it expires. A client sends one control token with many requests, so an id may
 * come again, but only with the same token. While `most` unexpired ids are remembered, new ones are refused.
 */
export const createTokenIds = (now: () => number, most = 10_000): TokenIds => {
  const known = new Map<string, { readonly token: string; readonly expiresAt: number }>()
  const accepted = new Map<string, number>()
  const sweep = () => {
    for (const [id, { token, expiresAt }] of known) {
      if (expiresAt > now()) continue
      known.delete(id)
      accepted.delete(token)
    }
  }
  return {
    isAccepted: (token) => (accepted.get(token) ?? 0) > now(),
    belongs: (jti, token, expiresAt) => {
      const first = known.get(jti)
      if (first !== undefined && first.expiresAt > now()) return first.token === token
      if (known.size >= most) sweep()
      if (known.size >= most) return false
      known.set(jti, { token, expiresAt })
      accepted.set(token, expiresAt)
      return true
    },
    clear: () => {
      known.clear()
      accepted.clear()
    },
  }
}
