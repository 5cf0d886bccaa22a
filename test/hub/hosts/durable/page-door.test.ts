/** The page beside the Durable Objects: static assets of the worker, on the real workerd. */
import { AUDIENCE, ISSUER, JWT_SECRET } from "../../kit/owners.ts"
import { testPageDoor } from "../../page-door-contract.ts"
import { bundleWorker, startWorkerd } from "../../kit/workerd.ts"

testPageDoor("the page beside the Durable Objects", async () => {
  const workerd = await startWorkerd(
    await bundleWorker(),
    { HUB_JWT_SECRET: JWT_SECRET, HUB_JWT_ISSUER: ISSUER, HUB_JWT_AUDIENCE: AUDIENCE },
    { page: true },
  )
  return { ...workerd, pageOrigin: workerd.url }
})
