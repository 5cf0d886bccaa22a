/**
 * Waits for a port that another socket uses. A port from the range of outgoing connections may be the local end of one
 * while no server listens on it, and stays taken for a minute after that connection has ended.
 */
import { type Clock, sleep } from "../lib/clock.ts"
import { errorCode } from "../lib/error-code.ts"
import { listenOnLoopback } from "../lib/loopback-listeners.ts"

export interface PortWait {
  readonly hostname: string
  /** 0: any port. */
  readonly port: number
  readonly clock: Clock
  /** Called once, if it has to wait. */
  readonly say: (text: string) => void
}

const WAIT_MS = 65_000
const TRY_MS = 250

/** Whether a server can listen there now. `refused`: for another reason than another socket, such as a missing permission. */
export const probePort = (hostname: string, port: number): "free" | "in-use" | "refused" => {
  try {
    const probes = listenOnLoopback(hostname, port, (name, chosen) =>
      Bun.serve({ hostname: name, port: chosen, fetch: () => new Response() }),
    )
    for (const probe of probes) void probe.stop(true)
    return "free"
  } catch (error) {
    return errorCode(error) === "EADDRINUSE" ? "in-use" : "refused"
  }
}

/** Rejects if the port is still in use after a minute. */
export const untilPortIsFree = async (wait: PortWait): Promise<void> => {
  const { hostname, port, clock } = wait
  // A refusal is the server's own to report.
  const isInUse = () => probePort(hostname, port) === "in-use"
  if (port === 0 || !isInUse()) return
  wait.say(`Port ${port} is in use: waiting up to ${WAIT_MS / 1000} seconds for it\n`)
  const until = clock.now() + WAIT_MS
  while (clock.now() < until) {
    await sleep(clock, TRY_MS)
    if (!isInUse()) return
  }
  throw new Error(
    `port ${port} is in use: end the program that uses it, or choose another port with HUB_PORT, best below 32768, where no outgoing connection takes it`,
  )
}
