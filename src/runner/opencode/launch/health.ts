/** Waits until a process that was just started is well: it listens itself, and answers. */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { describeError } from "../../../lib/log.ts"
import type { AgentClient } from "../client/client.ts"
import { LaunchError } from "./launch-error.ts"

export interface HealthWait {
  readonly client: Pick<AgentClient, "health">
  /** The very process has the port. */
  readonly listens: () => boolean
  /** How it ended, if it did. */
  readonly end: () => string | undefined
  /** What it wrote last, as the end of a sentence. */
  readonly words: () => Promise<string>
  readonly limitMs: number
  readonly pollMs?: number
  readonly clock: Clock
  readonly signal: AbortSignal
}

const POLL_MS = 25
/** Of those that wait for an answer at the same time. */
const MOST_PROBES = 20

/**
 * Gives its version. Most connections that OpenCode takes in the first 300 ms of listening are never answered, so a
 * new one is made while the ones before still wait, and whichever is answered first counts.
 */
export const waitForHealth = async (wait: HealthWait): Promise<string> => {
  const { clock, signal, limitMs, pollMs = POLL_MS } = wait
  const answered = Promise.withResolvers<string>()
  const until = clock.now() + limitMs
  let waiting = 0
  let last: unknown
  const probe = async () => {
    waiting += 1
    try {
      answered.resolve((await wait.client.health()).version)
    } catch (error) {
      last = error
    }
    waiting -= 1
  }
  while (clock.now() < until) {
    signal.throwIfAborted()
    const end = wait.end()
    if (end !== undefined) {
      throw new LaunchError("exit", `OpenCode ${end} before it was ready${await wait.words()}`)
    }
    if (waiting < MOST_PROBES && wait.listens()) void probe()
    const version = await Promise.race([answered.promise, sleep(clock, pollMs, signal)])
    if (version !== undefined) return version
  }
  const why = last === undefined ? "it does not listen" : describeError(last)
  throw new LaunchError(
    "timeout",
    `OpenCode runs but was not healthy within ${limitMs / 1000} s (${why})${await wait.words()}`,
  )
}
