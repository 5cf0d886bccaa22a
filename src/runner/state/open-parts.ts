/** The databases of the two parts of the state directory, once the directory belongs to this session. */
import type { Database } from "bun:sqlite"
import { mkdirSync } from "node:fs"
import { type Clock, systemClock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { openStateDb, writeOut } from "../../lib/state-db.ts"
import { machineFolder, sessionFolder } from "../../lib/state-folders.ts"
import type { Settings } from "../../settings/settings.ts"
import { chooseAgentUser } from "../host/users.ts"
import { endLeftProcesses } from "./end-left-processes.ts"
import { enterSession } from "./enter-session.ts"
import { hasOldLayout, migrateOldLayout } from "./old-layout.ts"

export interface StateParts {
  /** Stays when another session gets the disk: no word of a conversation, no secret. */
  readonly machine: Database
  readonly session: Database
  /** Everything from the write-ahead logs into the files. */
  readonly writeOut: () => void
  readonly close: () => void
}

export interface OpenOptions {
  readonly config: Settings
  readonly log: Log
  readonly clock?: Clock
  /** A former session's part becomes this folder; without it, it is removed. */
  readonly setAside?: string
  /** The session of a state directory that an earlier version has written; this one, if it is not known. */
  readonly sessionOfOldLayout?: string
}

/** To be awaited before anything reads the state directory. It throws if a former session's part cannot be removed. */
export const openStateParts = async (options: OpenOptions): Promise<StateParts> => {
  const { config, log, clock = systemClock, setAside } = options
  const { stateDir, sessionId } = config
  try {
    mkdirSync(stateDir, { recursive: true, mode: 0o700 })
    if (hasOldLayout(stateDir)) {
      await endLeftProcesses(stateDir, stateDir, clock)
      migrateOldLayout(stateDir, options.sessionOfOldLayout ?? sessionId)
    }
    await enterSession({ stateDir, sessionId, homes: homesOf(config), setAside, clock, log })
  } catch (error) {
    throw new Error(`the state directory ${stateDir} cannot be used (SANDPIPER_STATE_DIR)`, {
      cause: error,
    })
  }
  const machine = openStateDb(machineFolder(stateDir))
  const session = openStateDb(sessionFolder(stateDir))
  return {
    machine,
    session,
    writeOut: () => {
      writeOut(machine)
      writeOut(session)
    },
    close: () => {
      machine.close()
      session.close()
    },
  }
}

const homesOf = ({ ownDisk, agentUser, environment }: Settings): readonly string[] => {
  if (!ownDisk) return []
  const user = chooseAgentUser(agentUser, process.getuid?.() === 0)
  return [environment["HOME"] || "/root", ...(user ? [user.home] : [])]
}
