/**
 * Listens on both addresses of loopback. Browsers resolve a name below `.localhost` to ::1 and to 127.0.0.1. A server on 127.0.0.1
 * alone leaves ::1 to any program of this machine, which then receives the tokens of the server's clients.
 */
import { errorCode } from "./error-code.ts"

const IPV4 = "127.0.0.1"
const IPV6 = "::1"
const NO_IPV6: ReadonlySet<string | undefined> = new Set(["EADDRNOTAVAIL", "EAFNOSUPPORT"])
/** For a port that the kernel chooses, which is free on one address only. */
const ATTEMPTS = 20

interface Listener {
  readonly port?: number | undefined
  readonly stop: (closeConnections: boolean) => unknown
}

/** `port`: 0 for any. One listener for any other address than 127.0.0.1, and on a machine without IPv6. */
export const listenOnLoopback = <Kind extends Listener>(
  hostname: string,
  port: number,
  listen: (hostname: string, port: number) => Kind,
): readonly [Kind, ...Kind[]] => {
  for (let attempt = 1; ; attempt += 1) {
    const first = listen(hostname, port)
    if (hostname !== IPV4) return [first]
    const chosen = first.port ?? port
    try {
      return [first, listen(IPV6, chosen)]
    } catch (error) {
      const code = errorCode(error)
      if (NO_IPV6.has(code)) return [first]
      void first.stop(true)
      if (code !== "EADDRINUSE") throw error
      if (port !== 0 || attempt === ATTEMPTS) throw taken(chosen, error)
    }
  }
}

const taken = (port: number, cause: unknown): Error =>
  Object.assign(
    new Error(
      `another program listens on [${IPV6}]:${port}, where browsers would find it in the place of this one: end it, or choose another port`,
      { cause },
    ),
    { code: "EADDRINUSE" },
  )
