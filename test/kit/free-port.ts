/**
 * A loopback port for a server of a test, also for one that the test ends and starts again at the same address. The kernel gives it
 * to no other program, and a test process gets it once.
 */
import { freePort as findFreePort } from "../../src/lib/free-port.ts"

const given = new Set<number>()

export const freePort = (): number => {
  for (;;) {
    const port = findFreePort()
    if (given.has(port)) continue
    given.add(port)
    return port
  }
}
