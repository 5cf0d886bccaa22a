/**
 * The broker as a process of its own: it outlives a killed runner together with OpenCode, so that a model call in progress
 * is not cut. The runner orders it over a Unix socket that only the runner's user can open; keys travel nowhere else.
 */
import { chmodSync, rmSync } from "node:fs"
import { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { startKeyBroker } from "./key-broker.ts"
import type { Upstream } from "./upstreams.ts"

/** Arrives on standard input: a secret has no place on a command line. */
export const brokerOrder = z.object({
  token: z.string().min(16),
  port: z.int().min(1).max(65_535),
  socket: z.string().min(1),
  version: z.string(),
})
export type BrokerOrder = z.output<typeof brokerOrder>

const upstreamsBody = z.object({
  models: z.record(
    z.string(),
    z.object({
      baseUrl: z.string(),
      auth: z.enum(["bearer", "x-api-key", "x-goog-api-key"]),
      key: z.string().optional(),
    }),
  ),
  services: z.record(
    z.string(),
    z.object({
      url: z.url(),
      headers: z.record(z.string(), z.string()),
      calls: z.enum(["mcp", "parallel"]),
    }),
  ),
})

/** Paths on the Unix socket. */
export const UPSTREAMS_PATH = "/upstreams"
export const STOP_PATH = "/stop"
export const PORT_IN_USE_EXIT = 3
/** Without a runner for this long, and without a call in progress, the broker ends. */
const LEASE_MS = 120_000
const LEASE_CHECK_MS = 5000

/** Resolves with the exit code when the runner stops the broker or has been away for too long. */
export const serveBroker = async (
  order: BrokerOrder,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<number> => {
  const ended = Promise.withResolvers<number>()
  let lastOrderAt = clock.now()
  const broker = tryStart(() => startKeyBroker({ token: order.token, port: order.port, log }))
  if (!broker) return PORT_IN_USE_EXIT
  rmSync(order.socket, { force: true })
  const control = Bun.serve({
    unix: order.socket,
    fetch: async (request) => {
      lastOrderAt = clock.now()
      const { pathname } = new URL(request.url)
      if (pathname === STOP_PATH) ended.resolve(0)
      else if (pathname === UPSTREAMS_PATH) {
        const given = upstreamsBody.safeParse(await request.json().catch(() => undefined))
        if (!given.success) return new Response("", { status: 400 })
        broker.setUpstreams(
          new Map<string, Upstream>(Object.entries(given.data.models)),
          new Map(Object.entries(given.data.services)),
        )
      } else return new Response("", { status: 404 })
      return Response.json({ version: order.version })
    },
  })
  chmodSync(order.socket, 0o600)
  const checkLease = () => {
    const isLeased = clock.now() - lastOrderAt < LEASE_MS || broker.activeCalls() > 0
    if (isLeased) clock.after(LEASE_CHECK_MS, checkLease)
    else ended.resolve(0)
  }
  checkLease()
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
