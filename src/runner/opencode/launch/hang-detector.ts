/**
 * Asks a running OpenCode again and again whether it is there. A process that is stopped or stuck keeps its port and
 * its connections and says nothing; only questions find out.
 */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { AgentCallError, type AgentClient } from "../client/client.ts"

export interface WatchOptions {
  readonly client: Pick<AgentClient, "health">
  readonly clock: Clock
  readonly everyMs?: number
  /** So many questions in a row without an answer, each with a limit of a second, and it counts as hung. */
  readonly misses?: number
}

const EVERY_MS = 5000
/** About half a minute. It is counted in questions, not time: a machine that was itself asleep asked none. */
const MISSES = 6

/** Resolves with the reason when it is hung; never, once the signal is given. */
export const untilHung = async (
  { client, clock, everyMs = EVERY_MS, misses = MISSES }: WatchOptions,
  signal: AbortSignal,
): Promise<string | undefined> => {
  let missed = 0
  while (!signal.aborted) {
    await sleep(clock, everyMs, signal)
    if (signal.aborted) return undefined
    missed = await client.health().then(
      () => 0,
      // Also a refusal is an answer: whoever gives one is awake.
      (error: unknown) =>
        error instanceof AgentCallError && error.status !== undefined ? 0 : missed + 1,
    )
    if (missed >= misses) return `OpenCode runs but has not answered ${missed} times in a row`
  }
  return undefined
}
