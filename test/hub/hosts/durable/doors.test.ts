/** The doors of the Durable Objects, on the real workerd. */
import { testDoors } from "../../doors-contract.ts"
import { bundleWorker, startWorkerd } from "../../kit/workerd.ts"

const script = await bundleWorker()

testDoors("the doors of the hub in Durable Objects", async () => {
  const workerd = await startWorkerd(script)
  return { ...workerd, disturb: workerd.hibernate }
})
