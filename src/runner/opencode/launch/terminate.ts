/** Ends an OpenCode and everything that came of it, whoever started it. */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { type AgentClient, createAgentClient } from "../client/client.ts"
import type { Processes } from "./interfaces.ts"
import type { RunRecord } from "./run-record.ts"

/** In the environment of OpenCode and so of all that it starts; its value is new for each process. */
export const MARK = "SANDPIPER_AGENT_RUN"

const STOP_GRACE_MS = 5000
const ABORT_MS = 2000
const POLL_MS = 50

/** The very process: the same pid, the same start, and our mark on it. */
export const isOurs = (entry: RunRecord, processes: Processes): boolean =>
  processes.isAlive(entry) &&
  processes.carriers(MARK, entry.mark).some(({ pid }) => pid === entry.pid)

export interface EndOptions {
  readonly processes: Processes
  readonly clock: Clock
  readonly directory: string
  /** `gently`: its turns are aborted first, which also ends what their tools run. */
  readonly how: "gently" | "now"
}

/**
 * Its tools' shells are in sessions of their own and outlive it, so killing it or its group is not enough: its
 * descendants are listed while it lives, and whoever carries its mark is looked for after. Tells how many there were.
 */
export const endAgent = async (
  entry: RunRecord,
  { processes, clock, directory, how }: EndOptions,
): Promise<number> => {
  const isThere = isOurs(entry, processes)
  const { url, password } = entry
  if (how === "gently" && isThere) {
    await abortTurns(createAgentClient({ url, password, directory }), clock)
  }
  const known = isThere ? processes.descendants(entry.pid) : []
  if (isThere && how === "gently") processes.signal(entry, "SIGTERM")
  if (isThere && (how === "now" || !(await processes.waitForEnd(entry, STOP_GRACE_MS)))) {
    processes.signal(entry, "SIGKILL")
    await processes.waitForEnd(entry, STOP_GRACE_MS)
  }
  return processes.endAll(() => [...known, ...processes.carriers(MARK, entry.mark)])
}

const abortTurns = async (client: AgentClient, clock: Clock): Promise<void> => {
  const settle = async () => {
    const busy = await client.statuses()
    await Promise.all([...busy.keys()].map((agentSessionId) => client.abort(agentSessionId)))
    while ((await client.statuses()).size > 0) await sleep(clock, POLL_MS)
  }
  const limit = new AbortController()
  await Promise.race([settle().catch(() => {}), sleep(clock, ABORT_MS, limit.signal)])
  limit.abort()
}
