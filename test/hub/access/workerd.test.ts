/** Access on the real workerd: the same stores, JWTs and encryption as on Bun. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { fileURLToPath } from "node:url"
import { exportJWK, generateKeyPair, SignJWT } from "jose"
import { startTestWorker, type TestWorker } from "../kit/workerd.ts"
import type { AccessRequest } from "./workerd-program.ts"

const SECRET = "a secret of at least thirty-two bytes"
const ISSUER = "https://id.example.test/"
const AUDIENCE = "sandpiper"

let workerd: TestWorker
let keySet: Bun.Server<undefined>

beforeAll(async () => {
  workerd = await startTestWorker(
    fileURLToPath(import.meta.resolve("./workerd-program.ts")),
    "AccessObject",
  )
})
afterAll(async () => {
  await workerd.stop()
  await keySet.stop(true)
})

test("keys, links, members, audit, JWTs and encryption work in a Durable Object", async () => {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), kid: "e1", alg: "ES256" }
  keySet = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => Response.json({ keys: [jwk] }),
  })
  const token = () =>
    new SignJWT({ scope: "sessions:read" })
      .setSubject("alice")
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setExpirationTime("1m")
  const asked: AccessRequest = {
    secret: SECRET,
    secretToken: await token()
      .setProtectedHeader({ alg: "HS256" })
      .sign(new TextEncoder().encode(SECRET)),
    jwksUrl: `http://127.0.0.1:${keySet.port}/jwks`,
    keySetToken: await token().setProtectedHeader({ alg: "ES256", kid: "e1" }).sign(privateKey),
    issuer: ISSUER,
    audience: AUDIENCE,
  }
  const response = await workerd.worker.dispatchFetch("http://worker/", {
    method: "POST",
    body: JSON.stringify(asked),
  })
  expect(await response.json()).toEqual({
    reads: true,
    writes: false,
    revoked: true,
    afterRevocation: false,
    linkRole: "viewer",
    linkAfterRevocation: false,
    members: [{ sub: "vera", role: "viewer" }],
    listed: ["s1"],
    totals: { running: 1, dollars: 0.5, tokens: 0, bytes: 0 },
    audited: true,
    auditDeleted: false,
    decrypted: "secret",
    bySecret: true,
    byKeySet: true,
    crossed: [false, false],
    link: "https://box.test/vscode/?token=e",
  })
})
