/**
 * The broker as a process of its own: it outlives a killed runner together with OpenCode, so that a model call in progress
 * is not cut. The runner orders it over a Unix socket that only the runner's user can open; keys travel nowhere else. The
 * agent may be that user, so the orders are encrypted.
 */
import { chmodSync, rmSync } from "node:fs"
import { z } from "zod"
import { type AbsencePolicy, isOver, present, stillAway } from "../../lib/absence-state.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { startKeyBroker } from "./key-broker.ts"
import { openOrder, sealReply } from "./sealed-orders.ts"
import type { Upstream } from "./upstreams.ts"

/** Arrives on standard input: a secret has no place on a command line. */
export const brokerOrder = z.object({
  token: z.string().min(16),
  port: z.int().min(1).max(65_535),
  socket: z.string().min(1),
  version: z.string(),
  orderKey: z.string().min(16),
  /** The number of the runner's last order: a recorded one is not accepted by the next broker either. */
  lastOrder: z.number(),
  /** Without a runner for this long, and without a call in progress, the broker ends. 0: never. */
  leaseSeconds: z.number(),
})
export type BrokerOrder = z.output<typeof brokerOrder>

/** Paths on the Unix socket. */
export const UPSTREAMS_PATH = "/upstreams"
export const STOP_PATH = "/stop"
export const PORT_IN_USE_EXIT = 3
const LOOK_MS = 5000

/** Resolves with the exit code when the runner stops the broker or has been away for too long. */
export const serveBroker = async (
  order: BrokerOrder,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<number> => {
  const ended = Promise.withResolvers<number>()
  const policy: AbsencePolicy = { limitMs: order.leaseSeconds * 1000, everyMs: LOOK_MS }
  let runner = present(clock.now())
  let lastOrder = order.lastOrder
  const broker = tryStart(() => startKeyBroker({ token: order.token, port: order.port, log }))
  if (!broker) return PORT_IN_USE_EXIT
  rmSync(order.socket, { force: true })
  const control = Bun.serve({
    unix: order.socket,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      if (pathname === STOP_PATH) {
        // Not encrypted: a runner with another key has to replace this broker, and the user of the socket can kill it anyway.
        ended.resolve(0)
        return new Response("")
      }
      if (pathname !== UPSTREAMS_PATH) return new Response("", { status: 404 })
      const given = openOrder(order.orderKey, await request.text())
      if (given === undefined) return new Response("", { status: 400 })
      if (given.number <= lastOrder) return new Response("", { status: 409 })
      lastOrder = given.number
      runner = present(clock.now())
      const { number, models, services } = given
      if (models && services)
        broker.setUpstreams(
          new Map<string, Upstream>(Object.entries(models)),
          new Map(Object.entries(services)),
        )
      return new Response(sealReply(order.orderKey, { number, version: order.version }))
    },
  })
  chmodSync(order.socket, 0o600)
  const look = () => {
    runner = stillAway(runner, clock.now(), policy)
    if (isOver(runner, policy) && broker.activeCalls() === 0) return ended.resolve(0)
    clock.after(LOOK_MS, look)
  }
  if (order.leaseSeconds > 0) clock.after(LOOK_MS, look)
  const code = await ended.promise
  rmSync(order.socket, { force: true })
  // Lets the reply to the stop order leave.
  await control.stop()
  await broker.stop()
  return code
}

const tryStart = <Started>(start: () => Started): Started | undefined => {
  try {
    return start()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return undefined
    throw error
  }
}
