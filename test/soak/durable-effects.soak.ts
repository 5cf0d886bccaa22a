/** The effects of the hub in a Durable Object: another session, a git host, a chat. On the real workerd. */
import { testEffects } from "../hub/effects-contract.ts"
import { bundleWorker, startWorkerd } from "../hub/kit/workerd.ts"

const script = await bundleWorker()

testEffects("effects of the hub in a Durable Object", (environment) =>
  startWorkerd(script, environment),
)
