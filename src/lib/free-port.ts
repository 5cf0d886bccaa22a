/**
 * A port of loopback on which no program listens at this moment. It is below the ports that the kernel gives to programs which
 * ask for any port and to outgoing connections: none of them takes it before its program listens.
 */
export const freePort = (): number => {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST + 1))
    if (isFree(port)) return port
  }
  // The machine is full of servers, or has another range: any port is better than none.
  return listenOnce(0)
}

const LOWEST = 20_000
/** The kernel's own range begins above it (`net.ipv4.ip_local_port_range`). */
const HIGHEST = 32_767
const ATTEMPTS = 50

const isFree = (port: number): boolean => {
  try {
    return listenOnce(port) === port
  } catch {
    return false
  }
}

const listenOnce = (wanted: number): number => {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: wanted, socket: { data: () => {} } })
  const { port } = probe
  probe.stop(true)
  return port
}
