/** `sandpiper egress-proxy`: the way to the network of one local sandbox with a network policy. It runs outside the sandbox. */
import { z } from "zod"
import { startEgressProxy } from "../runner/host/egress-proxy.ts"
import { type Command, untilSignal } from "./command.ts"

const order = z.object({ port: z.int(), hosts: z.array(z.string()), via: z.string().optional() })

export const egressProxy: Command = async ({ log }) => {
  const signalled = untilSignal()
  const { port, hosts, via } = order.parse(JSON.parse(await Bun.stdin.text()))
  const proxy = await startEgressProxy({
    port,
    hosts,
    via: via === undefined ? undefined : new URL(via),
    onRefused: (host, refused) => log.warn("egress.refused", { host, port: refused }),
  })
  await signalled
  await proxy.stop()
  return 0
}
