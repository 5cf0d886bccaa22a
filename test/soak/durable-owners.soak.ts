/** Owners and access in Durable Objects, on the real workerd. */
import { AUDIENCE, GATEWAY_SECRET, ISSUER, JWT_SECRET } from "../hub/kit/owners.ts"
import { bundleWorker, startWorkerd } from "../hub/kit/workerd.ts"
import { testKeySet } from "../hub/key-set.ts"
import { testOwners } from "../hub/owners.ts"

const script = await bundleWorker()

testOwners("owners in Durable Objects", () =>
  startWorkerd(script, {
    HUB_JWT_SECRET: JWT_SECRET,
    HUB_JWT_ISSUER: ISSUER,
    HUB_JWT_AUDIENCE: AUDIENCE,
    HUB_GATEWAY_SECRET: GATEWAY_SECRET,
    GITHUB_TOKEN: "of-the-operator",
    GITHUB_API_URL: "http://127.0.0.1:1",
  }),
)

testKeySet("Durable Objects", (jwksUrl) =>
  startWorkerd(script, {
    HUB_JWKS_URL: jwksUrl,
    HUB_JWT_ISSUER: ISSUER,
    HUB_JWT_AUDIENCE: AUDIENCE,
  }),
)
