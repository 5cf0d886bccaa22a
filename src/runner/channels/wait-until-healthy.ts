/** After a call that nobody answered: either that OpenCode is found to be gone, or it answers again. */
import type { AgentClient } from "../opencode/client/client.ts"
import { type Clock, sleep } from "../../lib/clock.ts"

const POLL_MS = 100

/** Resolves when it answers, or when it is no longer the one; whoever watches it sees to that. */
export const untilAnswering = async (
  client: Pick<AgentClient, "health">,
  isCurrent: () => boolean,
  clock: Clock,
): Promise<void> => {
  while (isCurrent()) {
    try {
      await client.health()
      return
    } catch {
      await sleep(clock, POLL_MS)
    }
  }
}
