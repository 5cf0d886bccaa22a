/**
 * The broker in the runner's own process, for a runner that is the first process of its sandbox and not root, so that its
 * agent is the same user, as in an isolated local sandbox. Nothing outlives such a runner, so a process of its own has no use. And the agent
 * could kill that process and read the memory of the next one, until that one has closed it.
 */
import { randomBytes } from "node:crypto"
import { freePort } from "../../lib/free-port.ts"
import type { Log } from "../../lib/log.ts"
import type { BrokerSupervisor } from "./broker-supervisor.ts"
import { type KeyBroker, startKeyBroker } from "./key-broker.ts"

export const createOwnBroker = ({ log }: { readonly log: Log }): BrokerSupervisor => {
  const port = freePort()
  const token = randomBytes(32).toString("hex")
  let broker: KeyBroker | undefined
  let upstreams: Parameters<KeyBroker["setUpstreams"]> | undefined
  return {
    port,
    address: { origin: `http://127.0.0.1:${port}`, token },
    start: () => {
      broker ??= startKeyBroker({ token, port, log })
      if (upstreams) broker.setUpstreams(...upstreams)
    },
    setUpstreams: async (models, services = {}) => {
      upstreams = [new Map(Object.entries(models)), new Map(Object.entries(services))]
      broker?.setUpstreams(...upstreams)
    },
    stop: async () => {
      await broker?.stop()
    },
  }
}
