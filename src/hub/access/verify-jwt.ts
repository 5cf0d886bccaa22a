/**
 * Verifies the JWT of a person. Either a shared secret (HS256) or a key set (RS256, ES256) is configured, never both:
 * with both, a token signed with the public key as an HMAC secret could pass.
 */
import { createRemoteJWKSet, customFetch, errors, jwtVerify, type JWTVerifyOptions } from "jose"
import { type Person, personFromClaims } from "./principal.ts"

export interface JwtSettings {
  /** `HUB_JWT_SECRET` */
  readonly secret?: string | undefined
  /** `HUB_JWKS_URL` */
  readonly jwksUrl?: string | undefined
  /** `HUB_JWT_ISSUER`: required with a key set, checked with a secret when it is set. */
  readonly issuer?: string | undefined
  /** `HUB_JWT_AUDIENCE`: likewise. */
  readonly audience?: string | undefined
}

export interface JwtPorts {
  readonly now: () => number
  /** Fetches the key set. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  /** How long an unknown key id waits before the key set is fetched again; 30 s unless a test sets it. */
  readonly cooldownMs?: number
}

export type JwtResult =
  | { readonly ok: true; readonly principal: Person }
  /** `unavailable`: the key set could not be fetched, so the token may be good. The problem never quotes the token. */
  | {
      readonly ok: false
      readonly reason: "invalid" | "unavailable"
      readonly problem: string
    }

export type JwtVerifier = (token: string) => Promise<JwtResult>

const SHORTEST_SECRET = 32
const LONGEST_TOKEN = 8192
const TOLERANCE_SECONDS = 5
const CACHE_MS = 10 * 60_000
const COOLDOWN_MS = 30_000
const FETCH_MS = 5000

/** `undefined` when no JWT is configured. Throws when the settings are unsafe: the host must not start then. */
export const createJwtVerifier = (
  settings: JwtSettings,
  ports: JwtPorts,
): JwtVerifier | undefined => {
  const { secret, jwksUrl } = settings
  if (secret !== undefined && jwksUrl !== undefined) {
    throw new Error("HUB_JWT_SECRET and HUB_JWKS_URL are both set: remove one of them.")
  }
  if (secret !== undefined) return bySecret(secret, settings, ports)
  return jwksUrl === undefined ? undefined : byKeySet(jwksUrl, settings, ports)
}

const bySecret = (secret: string, settings: JwtSettings, { now }: JwtPorts): JwtVerifier => {
  const key = new TextEncoder().encode(secret)
  if (key.length < SHORTEST_SECRET) {
    throw new Error(`HUB_JWT_SECRET is too short: use at least ${SHORTEST_SECRET} bytes.`)
  }
  const options = optionsOf(settings, ["HS256"])
  return (token) => verify(token, () => jwtVerify(token, key, { ...options, ...at(now) }))
}

const byKeySet = (jwksUrl: string, settings: JwtSettings, ports: JwtPorts): JwtVerifier => {
  const { issuer, audience } = settings
  if (!issuer || !audience) {
    throw new Error("HUB_JWKS_URL needs HUB_JWT_ISSUER and HUB_JWT_AUDIENCE: set both.")
  }
  const keys = createRemoteJWKSet(keySetUrl(jwksUrl), {
    [customFetch]: (url, init) => ports.fetch(url, init),
    cacheMaxAge: CACHE_MS,
    cooldownDuration: ports.cooldownMs ?? COOLDOWN_MS,
    timeoutDuration: FETCH_MS,
  })
  const options = optionsOf(settings, ["RS256", "ES256"])
  return (token) => verify(token, () => jwtVerify(token, keys, { ...options, ...at(ports.now) }))
}

/** A key set over plain HTTP could be replaced on the way, so only loopback may use it. */
const keySetUrl = (text: string): URL => {
  const url = URL.parse(text)
  if (url === null) throw new Error("HUB_JWKS_URL is not a URL.")
  const loopback = ["127.0.0.1", "localhost", "[::1]"].includes(url.hostname)
  if (url.protocol !== "https:" && !(url.protocol === "http:" && loopback)) {
    throw new Error("HUB_JWKS_URL must start with https:// (http:// only on loopback).")
  }
  return url
}

const optionsOf = (
  { issuer, audience }: JwtSettings,
  algorithms: readonly string[],
): JWTVerifyOptions => ({
  algorithms: [...algorithms],
  requiredClaims: ["exp", "sub"],
  clockTolerance: TOLERANCE_SECONDS,
  ...(issuer && { issuer }),
  ...(audience && { audience }),
})

const at = (now: () => number) => ({ currentDate: new Date(now()) })

const verify = async (
  token: string,
  check: () => Promise<{ readonly payload: Readonly<Record<string, unknown>> }>,
): Promise<JwtResult> => {
  if (token.length > LONGEST_TOKEN) return invalid("the token is too long")
  try {
    const principal = personFromClaims((await check()).payload)
    return principal ? { ok: true, principal } : invalid("sub or org is not a usable identifier")
  } catch (error) {
    return problemOf(error)
  }
}

const invalid = (problem: string): JwtResult => ({ ok: false, reason: "invalid", problem })

/** Everything that is not a fault of the token comes from fetching the key set. */
const problemOf = (error: unknown): JwtResult => {
  const faultOfToken =
    error instanceof errors.JWTClaimValidationFailed ||
    error instanceof errors.JWTExpired ||
    error instanceof errors.JWTInvalid ||
    error instanceof errors.JWSInvalid ||
    error instanceof errors.JWSSignatureVerificationFailed ||
    error instanceof errors.JOSEAlgNotAllowed ||
    error instanceof errors.JOSENotSupported ||
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys
  if (faultOfToken) return invalid(error.code)
  return { ok: false, reason: "unavailable", problem: "the key set could not be fetched" }
}
