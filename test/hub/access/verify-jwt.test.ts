/** JWTs of people, against a key set on a real HTTP server, with the attacks that a verifier must refuse. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { type CryptoKey, exportJWK, exportSPKI, generateKeyPair, SignJWT, type JWK } from "jose"
import {
  createJwtVerifier,
  type JwtSettings,
  type JwtVerifier,
} from "../../../src/hub/access/verify-jwt.ts"

const NOW = 1_800_000_000_000
const SECRET = "a secret of at least thirty-two bytes"
const ISSUER = "https://id.example.test/"
const AUDIENCE = "sandpiper"

const seconds = NOW / 1000
const ports = { now: () => NOW, fetch: (url: string, init: RequestInit) => fetch(url, init) }
const keyOf = (text: string) => new TextEncoder().encode(text)

interface Claims {
  readonly iss?: string | undefined
  readonly aud?: string | undefined
  readonly exp?: number | undefined
  readonly sub?: string | undefined
  readonly nbf?: number
}

const sign = (
  key: CryptoKey | Uint8Array,
  alg: string,
  claims: Claims = {},
  header: object = {},
): Promise<string> => {
  const all = {
    iss: ISSUER,
    aud: AUDIENCE,
    exp: seconds + 60,
    sub: "alice",
    scope: "sessions:read",
    ...claims,
  }
  return new SignJWT(JSON.parse(JSON.stringify(all)) as Record<string, unknown>)
    .setProtectedHeader({ alg, ...header })
    .sign(key)
}

const unsigned = (header: object, claims: object): string =>
  [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".") + "."

const verifier = (settings: JwtSettings, cooldownMs = 0): JwtVerifier => {
  const made = createJwtVerifier(settings, { ...ports, cooldownMs })
  if (!made) throw new Error("no verifier")
  return made
}

const reason = async (verify: JwtVerifier, token: string) => {
  const result = await verify(token)
  return result.ok ? "accepted" : `${result.reason}: ${result.problem}`
}

describe("a JWT with a shared secret", () => {
  const verify = verifier({ secret: SECRET })
  const key = keyOf(SECRET)

  test("a good token gives the person and its scopes", async () => {
    expect(await verify(await sign(key, "HS256"))).toEqual({
      ok: true,
      principal: {
        kind: "person",
        sub: "alice",
        scopes: ["sessions:read"],
        expiresAt: NOW + 60_000,
      },
    })
  })
  test("a token of another secret is refused", async () => {
    const token = await sign(keyOf("another secret of thirty-two bytes"), "HS256")
    expect(await reason(verify, token)).toBe("invalid: ERR_JWS_SIGNATURE_VERIFICATION_FAILED")
  })
  test("an expired token is refused, and one within the tolerance is not", async () => {
    expect(await reason(verify, await sign(key, "HS256", { exp: seconds - 6 }))).toBe(
      "invalid: ERR_JWT_EXPIRED",
    )
    expect(await reason(verify, await sign(key, "HS256", { exp: seconds - 4 }))).toBe("accepted")
  })
  test("a token without exp or sub is refused", async () => {
    const failed = "invalid: ERR_JWT_CLAIM_VALIDATION_FAILED"
    expect(await reason(verify, await sign(key, "HS256", { exp: undefined }))).toBe(failed)
    expect(await reason(verify, await sign(key, "HS256", { sub: undefined }))).toBe(failed)
  })
  test("a token from the future is refused", async () => {
    expect(await reason(verify, await sign(key, "HS256", { nbf: seconds + 60 }))).toStartWith(
      "invalid",
    )
  })
  test("a token with another HMAC algorithm is refused", async () => {
    for (const alg of ["HS384", "HS512"]) {
      const long = keyOf(SECRET.repeat(2))
      expect(await reason(verifier({ secret: SECRET.repeat(2) }), await sign(long, alg))).toBe(
        "invalid: ERR_JOSE_ALG_NOT_ALLOWED",
      )
    }
  })
  test("an unsigned token is refused", async () => {
    const claims = { sub: "alice", exp: seconds + 60 }
    for (const alg of ["none", "None", "", "HS256"]) {
      expect(await reason(verify, unsigned({ alg }, claims))).toStartWith("invalid")
    }
  })
  test("text that is not a JWT is refused", async () => {
    for (const token of ["", "a", "a.b.c", "....", "x".repeat(9000)]) {
      expect(await reason(verify, token)).toStartWith("invalid")
    }
  })
  test("issuer and audience are checked when they are set", async () => {
    const strict = verifier({ secret: SECRET, issuer: ISSUER, audience: AUDIENCE })
    expect(await reason(strict, await sign(key, "HS256"))).toBe("accepted")
    expect(await reason(strict, await sign(key, "HS256", { iss: "https://evil.test/" }))).toBe(
      "invalid: ERR_JWT_CLAIM_VALIDATION_FAILED",
    )
    expect(await reason(strict, await sign(key, "HS256", { aud: "other" }))).toBe(
      "invalid: ERR_JWT_CLAIM_VALIDATION_FAILED",
    )
  })
})

describe("a JWT with a key set", () => {
  let server: Bun.Server<undefined>
  let rsa: CryptoKey
  let rsaPublic: CryptoKey
  let ec: CryptoKey
  let unpublished: CryptoKey
  let published: JWK[]
  let initial: JWK[]
  let fetched = 0
  let broken = false

  const settings = () => ({
    jwksUrl: `http://127.0.0.1:${server.port}/jwks`,
    issuer: ISSUER,
    audience: AUDIENCE,
  })

  beforeAll(async () => {
    const pair = await generateKeyPair("RS256", { extractable: true })
    rsa = pair.privateKey
    rsaPublic = pair.publicKey
    const curve = await generateKeyPair("ES256", { extractable: true })
    ec = curve.privateKey
    unpublished = (await generateKeyPair("RS256")).privateKey
    initial = [
      { ...(await exportJWK(rsaPublic)), kid: "r1", alg: "RS256", use: "sig" },
      { ...(await exportJWK(curve.publicKey)), kid: "e1", alg: "ES256", use: "sig" },
    ]
    server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () => {
        fetched += 1
        return broken ? new Response("", { status: 500 }) : Response.json({ keys: published })
      },
    })
  })
  beforeEach(() => {
    published = initial
    fetched = 0
    broken = false
  })
  afterAll(async () => server.stop(true))

  test("RS256 and ES256 tokens are accepted with one fetch of the key set", async () => {
    const verify = verifier(settings(), 30_000)
    expect(await reason(verify, await sign(rsa, "RS256", {}, { kid: "r1" }))).toBe("accepted")
    expect(await reason(verify, await sign(ec, "ES256", {}, { kid: "e1" }))).toBe("accepted")
    expect(await reason(verify, await sign(rsa, "RS256", {}, { kid: "r1" }))).toBe("accepted")
    expect(fetched).toBe(1)
  })
  test("a token of another issuer, another audience or without either is refused", async () => {
    const verify = verifier(settings())
    for (const claims of [
      { iss: "https://evil.test/" },
      { aud: "other" },
      { iss: undefined },
      { aud: undefined },
      { exp: undefined },
    ]) {
      expect(await reason(verify, await sign(rsa, "RS256", claims, { kid: "r1" }))).toBe(
        "invalid: ERR_JWT_CLAIM_VALIDATION_FAILED",
      )
    }
    expect(
      await reason(verify, await sign(rsa, "RS256", { exp: seconds - 6 }, { kid: "r1" })),
    ).toBe("invalid: ERR_JWT_EXPIRED")
  })
  test("an HS256 token signed with the public RSA key is refused", async () => {
    const verify = verifier(settings())
    const spki = await exportSPKI(rsaPublic)
    const jwk = JSON.stringify(await exportJWK(rsaPublic))
    for (const secret of [spki, spki.trim(), jwk]) {
      const token = await sign(keyOf(secret), "HS256", {}, { kid: "r1" })
      expect(await reason(verify, token)).toBe("invalid: ERR_JOSE_ALG_NOT_ALLOWED")
    }
  })
  test("an unsigned token and a token with another RSA algorithm are refused", async () => {
    const verify = verifier(settings())
    const claims = { sub: "alice", exp: seconds + 60, iss: ISSUER, aud: AUDIENCE }
    expect(await reason(verify, unsigned({ alg: "none", kid: "r1" }, claims))).toStartWith(
      "invalid",
    )
    const { privateKey } = await generateKeyPair("PS256")
    expect(await reason(verify, await sign(privateKey, "PS256", {}, { kid: "r1" }))).toBe(
      "invalid: ERR_JOSE_ALG_NOT_ALLOWED",
    )
  })
  test("a token of an unknown key id, and one that names another key, are refused", async () => {
    const verify = verifier(settings())
    expect(await reason(verify, await sign(unpublished, "RS256", {}, { kid: "r9" }))).toBe(
      "invalid: ERR_JWKS_NO_MATCHING_KEY",
    )
    expect(await reason(verify, await sign(unpublished, "RS256", {}, { kid: "r1" }))).toBe(
      "invalid: ERR_JWS_SIGNATURE_VERIFICATION_FAILED",
    )
    expect(await reason(verify, await sign(rsa, "RS256", {}, { kid: "e1" }))).toBe(
      "invalid: ERR_JWKS_NO_MATCHING_KEY",
    )
  })
  test("a key in the token's own header is not trusted", async () => {
    const pair = await generateKeyPair("RS256", { extractable: true })
    const jwk = await exportJWK(pair.publicKey)
    const token = await sign(pair.privateKey, "RS256", {}, { kid: "r1", jwk })
    expect(await reason(verifier(settings()), token)).toBe(
      "invalid: ERR_JWS_SIGNATURE_VERIFICATION_FAILED",
    )
  })
  test("a rotated key is fetched after the cooldown, and the removed key is refused", async () => {
    const verify = verifier(settings(), 0)
    expect(await reason(verify, await sign(rsa, "RS256", {}, { kid: "r1" }))).toBe("accepted")
    const next = await generateKeyPair("RS256", { extractable: true })
    published = [{ ...(await exportJWK(next.publicKey)), kid: "r2", alg: "RS256" }]
    expect(await reason(verify, await sign(next.privateKey, "RS256", {}, { kid: "r2" }))).toBe(
      "accepted",
    )
    expect(await reason(verify, await sign(rsa, "RS256", {}, { kid: "r1" }))).toBe(
      "invalid: ERR_JWKS_NO_MATCHING_KEY",
    )
  })
  test("unknown key ids do not cause a fetch each during the cooldown", async () => {
    const verify = verifier(settings(), 30_000)
    for (let index = 0; index < 5; index += 1) {
      await reason(verify, await sign(unpublished, "RS256", {}, { kid: `x${index}` }))
    }
    expect(fetched).toBe(1)
  })
  test("a key set that cannot be fetched is reported as unavailable, not as invalid", async () => {
    broken = true
    const token = await sign(rsa, "RS256", {}, { kid: "r1" })
    const verify = verifier(settings())
    expect(await reason(verify, token)).toBe("unavailable: the key set could not be fetched")
    const refusing = createJwtVerifier(settings(), {
      ...ports,
      fetch: () => Promise.reject(new Error("refused")),
    })
    expect(refusing && (await reason(refusing, token))).toBe(
      "unavailable: the key set could not be fetched",
    )
  })
})

describe("settings of JWTs", () => {
  const make = (settings: JwtSettings) => () => createJwtVerifier(settings, ports)

  test("without settings there is no verifier", () => {
    expect(createJwtVerifier({}, ports)).toBeUndefined()
  })
  test("a short secret is refused", () => {
    expect(make({ secret: "x".repeat(31) })).toThrow("HUB_JWT_SECRET is too short")
    expect(make({ secret: "" })).toThrow("HUB_JWT_SECRET is too short")
  })
  test("a secret together with a key set is refused", () => {
    expect(make({ secret: SECRET, jwksUrl: "https://x.test", issuer: "i", audience: "a" })).toThrow(
      "remove one of them",
    )
  })
  test("a key set without issuer or audience is refused", () => {
    const jwksUrl = "https://x.test/jwks"
    expect(make({ jwksUrl })).toThrow("needs HUB_JWT_ISSUER and HUB_JWT_AUDIENCE")
    expect(make({ jwksUrl, issuer: "i", audience: "" })).toThrow("needs HUB_JWT_ISSUER")
  })
  test("a key set over plain HTTP is refused except on loopback", () => {
    const more = { issuer: "i", audience: "a" }
    expect(make({ jwksUrl: "http://x.test/jwks", ...more })).toThrow("must start with https://")
    expect(make({ jwksUrl: "file:///etc/keys", ...more })).toThrow("must start with https://")
    expect(make({ jwksUrl: "nonsense", ...more })).toThrow("is not a URL")
    expect(make({ jwksUrl: "http://127.0.0.1:1/jwks", ...more })()).toBeFunction()
  })
})
