/** `sandpiper key-broker`: the process that adds provider keys to the agent's model calls; the runner starts it. */
import { systemClock } from "../lib/clock.ts"
import { brokerOrder, serveBroker } from "../runner/broker/broker-process.ts"
import { closeMemory } from "../runner/host/private-memory.ts"
import type { Command } from "./command.ts"

export const keyBroker: Command = async ({ log }) => {
  closeMemory(log)
  const order = brokerOrder.parse(JSON.parse(await Bun.stdin.text()))
  return serveBroker(order, { clock: systemClock, log })
}
