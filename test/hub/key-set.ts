/** People's JWTs by the key set of an identity provider, on a host. The provider is a server on loopback. */
import { expect, test } from "bun:test"
import { exportJWK, generateKeyPair, SignJWT } from "jose"
import { AUDIENCE, createStage, ISSUER, type OwnersHost, tokenOf } from "./kit/owners.ts"

export const testKeySet = (name: string, start: (jwksUrl: string) => Promise<OwnersHost>): void => {
  test(`${name}: a JWT of the identity provider opens its person's sessions, and no other JWT does`, async () => {
    const pairs = { RS256: await generateKeyPair("RS256"), ES256: await generateKeyPair("ES256") }
    const keys = await Promise.all(
      Object.entries(pairs).map(async ([alg, { publicKey }]) => ({
        ...(await exportJWK(publicKey)),
        kid: alg,
        alg,
      })),
    )
    const provider = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () => Response.json({ keys }),
    })
    const host = await start(`http://127.0.0.1:${provider.port}/keys`)
    const stage = createStage(() => host)
    try {
      const { id } = await stage.session("user:alice")
      const sign = async (alg: keyof typeof pairs, claims: { iss?: string; aud?: string } = {}) =>
        new SignJWT({ scope: "sessions:read" })
          .setProtectedHeader({ alg, kid: alg })
          .setSubject("alice")
          .setIssuer(claims.iss ?? ISSUER)
          .setAudience(claims.aud ?? AUDIENCE)
          .setExpirationTime("5m")
          .sign(pairs[alg].privateKey)
      const status = async (token: string) =>
        (await stage.call(token, "GET", `/sessions/${id}`)).status
      expect(await status(await sign("RS256"))).toBe(200)
      expect(await status(await sign("ES256"))).toBe(200)
      expect(await status(await sign("RS256", { iss: "https://other.test" }))).toBe(401)
      expect(await status(await sign("RS256", { aud: "other" }))).toBe(401)
      // HS256 with any secret, the public key included, is another algorithm.
      expect(await status(await tokenOf("alice"))).toBe(401)
      expect(await status(await tokenOf("alice", { secret: JSON.stringify(keys[0]) }))).toBe(401)
    } finally {
      await stage.end()
      await host.stop()
      await provider.stop(true)
    }
  })
}
