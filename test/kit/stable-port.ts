/**
 * A loopback port for a server that a test ends and starts again at the same address. It is below the range of outgoing
 * connections: while the server is away, one of those could take its port and keep it for a minute after its end.
 */
const FIRST = 21_000
const COUNT = 11_000
const taken = new Set<number>()

export const stablePort = (): number => {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * COUNT)
    if (taken.has(port)) continue
    try {
      Bun.listen({ hostname: "127.0.0.1", port, socket: { data: () => {} } }).stop(true)
      taken.add(port)
      return port
    } catch {
      // Another program has it.
    }
  }
}
