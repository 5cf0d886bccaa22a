/** A loopback port for a server that a test ends and starts again at the same address; no port is given twice. */
import { freePort } from "../../src/lib/free-port.ts"

const taken = new Set<number>()

export const stablePort = (): number => {
  for (;;) {
    const port = freePort()
    if (taken.has(port)) continue
    taken.add(port)
    return port
  }
}
