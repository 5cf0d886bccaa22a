/** The page beside the Durable Objects: static assets of the worker, on the real workerd. */
import { testPageDoor } from "../../page-door-contract.ts"
import { bundleWorker, startWorkerd } from "../../kit/workerd.ts"

testPageDoor("the page beside the Durable Objects", async () => {
  const workerd = await startWorkerd(await bundleWorker(), {}, { page: true })
  return { ...workerd, pageOrigin: workerd.url }
})
