/** The contract, held by the Durable Object on the real workerd, which sleeps and forgets between frames. */
import { holdContract } from "./contract.ts"
import { bundleWorker, startWorkerd } from "./kit/workerd.ts"

const script = await bundleWorker()

holdContract("the hub in a Durable Object", async () => {
  const workerd = await startWorkerd(script)
  return { ...workerd, disturb: () => workerd.hibernate() }
})
