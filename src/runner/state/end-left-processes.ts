/**
 * Ends what a former runner of this state directory has left running: OpenCode, services, shells and the key broker. The
 * directory identifies them and no record does: a copy of the state directory has the records of the original's processes,
 * which may be in use.
 */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { Database } from "bun:sqlite"
import type { Clock } from "../../lib/clock.ts"
import { readFact, STATE_DB } from "../../lib/state-db.ts"
import { BROKER_FACT, endLeftBroker } from "../broker/broker-supervisor.ts"
import { RUNNER_DIR } from "../host/control-socket.ts"
import type { ProcessRow } from "../../lib/process-identity.ts"
import {
  carriersOf,
  descendantsOf,
  endAll,
  isAnyStarting,
  listProcesses,
  sessionOf,
  variableOf,
} from "../host/processes.ts"
import { OWNER as SERVICE_OF } from "../host/services.ts"
import { RUN_MARK_VARIABLE } from "../opencode/launch/terminate.ts"
import { OWNER as APP_SERVICE_OF } from "../sandbox/services/app-services.ts"
import { TERMINAL_OF, TERMINAL_SESSION } from "../sandbox/terminal.ts"

/** Variables whose value is the state directory, in everything that a runner starts for the agent. */
const MARKS = [RUNNER_DIR, SERVICE_OF, APP_SERVICE_OF]

/** `folder`: the part, or the directory of an old layout, that has the records. Resolves to the number of ended processes. */
export const endLeftProcesses = async (
  stateDir: string,
  folder: string,
  clock: Clock,
): Promise<number> => {
  await endLeftBroker(brokerFact(folder), stateDir)
  return endAll(() => processesOf(stateDir), clock, isAnyStarting)
}

/**
 * Ends what a killed runner has left and the next one does not take over: commands, programs of `/v1` and terminals. It takes over
 * OpenCode, and services are ended by those who start them again. Before it starts anything itself.
 */
export const endAbandoned = (stateDir: string, clock: Clock): Promise<number> => {
  const find = () => {
    const table = listProcesses()
    const commands = carriersOf(RUNNER_DIR, stateDir, table).filter(
      ({ pid }) => variableOf(pid, RUN_MARK_VARIABLE) === undefined,
    )
    return withoutOwn([...commands, ...terminalsOf(stateDir, table)], table)
  }
  return endAll(find, clock)
}

/** A program that has left the session of its terminal, such as tmux, was meant to stay. */
const terminalsOf = (stateDir: string, table: readonly ProcessRow[]): readonly ProcessRow[] =>
  carriersOf(TERMINAL_OF, stateDir, table).filter(
    ({ pid }) => variableOf(pid, TERMINAL_SESSION) === String(sessionOf(pid)),
  )

const processesOf = (stateDir: string): readonly ProcessRow[] => {
  const table = listProcesses()
  const marked = MARKS.flatMap((name) => carriersOf(name, stateDir, table))
  const found = marked.flatMap((row) => [row, ...descendantsOf(row.pid, table)])
  return withoutOwn([...found, ...terminalsOf(stateDir, table)], table)
}

const withoutOwn = (
  found: readonly ProcessRow[],
  table: readonly ProcessRow[],
): readonly ProcessRow[] => {
  // A runner that a program of the former session has started does not end itself.
  const own = lineOf(process.pid, table)
  return [...new Map(found.map((row) => [row.pid, row])).values()].filter(
    ({ pid }) => !own.has(pid),
  )
}

/** The process and its ancestors. */
const lineOf = (pid: number, table: readonly ProcessRow[]): ReadonlySet<number> => {
  const parents = new Map(table.map((row) => [row.pid, row.parent]))
  const line = new Set<number>()
  for (let at: number | undefined = pid; at !== undefined && !line.has(at); at = parents.get(at))
    line.add(at)
  return line
}

const brokerFact = (folder: string): string => {
  const file = join(folder, STATE_DB)
  if (!existsSync(file)) return ""
  try {
    const db = new Database(file, { strict: true })
    try {
      return readFact(db, BROKER_FACT) ?? ""
    } finally {
      db.close()
    }
  } catch {
    // A database that cannot be read names no broker; without a runner a broker ends by itself.
    return ""
  }
}
