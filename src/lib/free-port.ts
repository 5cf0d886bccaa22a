import { listenOnLoopback } from "./loopback-listeners.ts"

/**
 * A port on which no program listens at this moment, of loopback by default. It is below the ports that the kernel gives to programs which
 * ask for any port and to outgoing connections: none of them takes it before its program listens.
 */
export const freePort = (hostname = "127.0.0.1"): number => {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST + 1))
    if (isFree(port, hostname)) return port
  }
  // The machine is full of servers, or has another range: any port is better than none.
  return listenOnce(0, hostname)
}

/** The wanted port if no program listens on it at this moment, otherwise another free one. */
export const freePortLike = (wanted: number): number =>
  isFree(wanted, "127.0.0.1") ? wanted : freePort()

const LOWEST = 20_000
/** The kernel's own range begins above it (`net.ipv4.ip_local_port_range`). */
const HIGHEST = 32_767
const ATTEMPTS = 50

const isFree = (port: number, hostname: string): boolean => {
  try {
    return listenOnce(port, hostname) === port
  } catch {
    return false
  }
}

const listenOnce = (wanted: number, hostname: string): number => {
  const probes = listenOnLoopback(hostname, wanted, (name, port) =>
    Bun.listen({ hostname: name, port, socket: { data: () => {} } }),
  )
  const [{ port }] = probes
  for (const probe of probes) probe.stop(true)
  return port
}
