/**
 * Detects a hung OpenCode by health checks. A stopped or stuck process keeps its port and its connections open, so
 * only missing responses reveal it.
 */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { AgentCallError, type AgentClient } from "../client/client.ts"

export interface WatchOptions {
  readonly client: Pick<AgentClient, "health">
  readonly clock: Clock
  readonly everyMs?: number
  /** This many health checks in a row without a response (each has a timeout of 1 s) count as hung. */
  readonly misses?: number
}

const EVERY_MS = 5000
/** About half a minute. Checks are counted instead of time, because a suspended machine sends none. */
const MISSES = 6

/** Resolves with the reason when OpenCode hangs, or with undefined when the signal aborts. */
export const waitUntilHung = async (
  { client, clock, everyMs = EVERY_MS, misses = MISSES }: WatchOptions,
  signal: AbortSignal,
): Promise<string | undefined> => {
  let missed = 0
  while (!signal.aborted) {
    await sleep(clock, everyMs, signal)
    if (signal.aborted) return undefined
    missed = await client.health().then(
      () => 0,
      // An error response proves that the process is responsive.
      (error: unknown) =>
        error instanceof AgentCallError && error.status !== undefined ? 0 : missed + 1,
    )
    if (missed >= misses)
      return `OpenCode runs but did not respond to ${missed} health checks in a row`
  }
  return undefined
}
