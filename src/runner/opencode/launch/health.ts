/** Waits until a process that was just started listens on its port and responds to health checks. */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { describeError } from "../../../lib/log.ts"
import type { AgentClient } from "../client/client.ts"
import { LaunchError } from "./launch-error.ts"

export interface HealthWait {
  readonly client: Pick<AgentClient, "health">
  /** True if this process holds the port. */
  readonly isListening: () => boolean
  /** Undefined while the process runs. */
  readonly exitReason: () => string | undefined
  /** The last log lines, as a suffix for an error message. */
  readonly describeLog: () => Promise<string>
  readonly timeoutMs: number
  readonly pollMs?: number
  readonly clock: Clock
  readonly signal: AbortSignal
}

const POLL_MS = 25
/** Health checks in flight at the same time. */
const MAX_PROBES = 20

/**
 * Resolves with OpenCode's version. Most connections that OpenCode accepts in its first 300 ms of listening never get
 * a response, so new health checks are sent while earlier ones are in flight, and the first response counts.
 */
export const waitForHealth = async (wait: HealthWait): Promise<string> => {
  const { clock, signal, timeoutMs, pollMs = POLL_MS } = wait
  const healthy = Promise.withResolvers<string>()
  const deadline = clock.now() + timeoutMs
  let inFlight = 0
  let listens = false
  let lastError: unknown
  const probe = async () => {
    inFlight += 1
    try {
      healthy.resolve((await wait.client.health()).version)
    } catch (error) {
      lastError = error
    }
    inFlight -= 1
  }
  while (clock.now() < deadline) {
    signal.throwIfAborted()
    const exitReason = wait.exitReason()
    if (exitReason !== undefined) {
      throw new LaunchError(
        "exit",
        `OpenCode ${exitReason} before it was ready${await wait.describeLog()}`,
      )
    }
    // Asked until the first yes: it reads the kernel's table of sockets, and the process keeps the port until it ends.
    listens ||= wait.isListening()
    if (listens && inFlight < MAX_PROBES) void probe()
    const version = await Promise.race([healthy.promise, sleep(clock, pollMs, signal)])
    if (version !== undefined) return version
  }
  const why = lastError === undefined ? "it does not listen" : describeError(lastError)
  throw new LaunchError(
    "timeout",
    `OpenCode runs but was not healthy within ${timeoutMs / 1000} s (${why})${await wait.describeLog()}`,
  )
}
