/** Ends an OpenCode process and all its descendants, also one that an earlier runner started. */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { type AgentClient, createAgentClient } from "../client/client.ts"
import type { Processes } from "./interfaces.ts"
import type { RunRecord } from "./run-record.ts"

/** Set in OpenCode's environment and inherited by its descendants; the value is unique to each OpenCode process. */
export const RUN_MARK_VARIABLE = "SANDPIPER_AGENT_RUN"

const STOP_GRACE_MS = 5000
const ABORT_MS = 2000
const POLL_MS = 50

/** True if the recorded process is alive: same pid, same start time and the recorded mark. */
export const isRecordedProcess = (record: RunRecord, processes: Processes): boolean =>
  processes.isAlive(record) &&
  processes.carriers(RUN_MARK_VARIABLE, record.mark).some(({ pid }) => pid === record.pid)

export interface TerminateOptions {
  readonly processes: Processes
  readonly clock: Clock
  readonly directory: string
  /** `gently` aborts running turns first, which also ends their tools' processes. */
  readonly how: "gently" | "now"
}

/**
 * The shells of OpenCode's tools have their own process sessions (setsid) and outlive it, so killing it or its group is
 * not enough. Its descendants are listed while it runs, and processes with its mark are searched for afterwards.
 * Resolves with the number of processes that were ended.
 */
export const terminateAgent = async (
  record: RunRecord,
  { processes, clock, directory, how }: TerminateOptions,
): Promise<number> => {
  const isAlive = isRecordedProcess(record, processes)
  const { url, password } = record
  if (how === "gently" && isAlive) {
    await abortTurns(createAgentClient({ url, password, directory }), clock)
  }
  const descendants = isAlive ? processes.descendants(record.pid) : []
  if (isAlive && how === "gently") processes.signal(record, "SIGTERM")
  if (isAlive && (how === "now" || !(await processes.waitForEnd(record, STOP_GRACE_MS)))) {
    processes.signal(record, "SIGKILL")
    await processes.waitForEnd(record, STOP_GRACE_MS)
  }
  return processes.endAll(() => [
    ...descendants,
    ...processes.carriers(RUN_MARK_VARIABLE, record.mark),
  ])
}

const abortTurns = async (client: AgentClient, clock: Clock): Promise<void> => {
  const abortAll = async () => {
    const busy = await client.statuses()
    await Promise.all([...busy.keys()].map((agentSessionId) => client.abort(agentSessionId)))
    while ((await client.statuses()).size > 0) await sleep(clock, POLL_MS)
  }
  const timeout = new AbortController()
  await Promise.race([abortAll().catch(() => {}), sleep(clock, ABORT_MS, timeout.signal)])
  timeout.abort()
}
