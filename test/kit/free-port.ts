/**
 * A loopback port that belongs to this test process until it ends, also while its server is down and starts again at the same
 * address. The range is below the ports of the kernel and of the product (`src/lib/free-port.ts`), so no program that asks for any
 * port gets it. Test processes hold each port by an abstract Unix socket of that number, which the kernel frees with the process.
 */
import { listenOnLoopback } from "../../src/lib/loopback-listeners.ts"

const LOWEST = 10_000
const HIGHEST = 19_999
const ATTEMPTS = 1000

/** Kept, because a collected listener would free its name. */
const holds = new Map<number, { readonly stop: () => void }>()

export const freePort = (): number => {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST + 1))
    if (!holds.has(port) && hold(port)) return port
  }
  throw new Error(`no free port from ${LOWEST} to ${HIGHEST}`)
}

const hold = (port: number): boolean => {
  const name = attemptTo(() =>
    Bun.listen({ unix: `\0sandpiper-test-port-${port}`, socket: { data: () => {} } }),
  )
  if (!name) return false
  const probes = attemptTo(() =>
    listenOnLoopback("127.0.0.1", port, (hostname, wanted) =>
      Bun.listen({ hostname, port: wanted, socket: { data: () => {} } }),
    ),
  )
  for (const probe of probes ?? []) probe.stop(true)
  if (!probes) {
    name.stop(true)
    return false
  }
  name.unref()
  holds.set(port, name)
  return true
}

const attemptTo = <Value>(act: () => Value): Value | undefined => {
  try {
    return act()
  } catch {
    return undefined
  }
}
