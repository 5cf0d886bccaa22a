/** What the page needs of the hub, on the real workerd. All tests share one start of it, and each has a session of its own. */
import { ALLOWED_ORIGIN } from "../../http-errors-contract.ts"
import { bundleWorker, startWorkerd } from "../../kit/workerd.ts"
import { testPageProtocol } from "../../page-contract.ts"

const script = await bundleWorker()

testPageProtocol("the page of the hub in a Durable Object", async () => {
  const workerd = await startWorkerd(script, {
    HUB_GATEWAY_SECRET: "a-gateway-secret-of-the-tests",
    ALLOWED_ORIGINS: ALLOWED_ORIGIN,
  })
  return {
    ...workerd,
    disturb: workerd.hibernate,
    disturbLobby: workerd.hibernateDirectory,
  }
})
