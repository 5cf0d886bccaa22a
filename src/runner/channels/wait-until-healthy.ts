/** After a call to OpenCode got no response: polls its health. */
import type { AgentClient } from "../opencode/client/client.ts"
import { type Clock, sleep } from "../../lib/clock.ts"

const POLL_MS = 100

/** Resolves when OpenCode is healthy again or has been replaced (the supervisor detects that). */
export const waitUntilHealthy = async (
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
