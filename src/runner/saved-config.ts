/**
 * The last configuration of the session agent, kept across restarts of the runner. It has keys, and an agent that runs as the
 * runner's user can read the state directory: it is encrypted with the runner's token, which only the runner's environment has.
 */
import type { Database } from "bun:sqlite"
import { describeError, type Log } from "../lib/log.ts"
import { seal, unseal } from "../lib/seal.ts"
import { readFact, scrubFact, writeFact, writeOut } from "../lib/state-db.ts"
import type { RuntimeConfig } from "./opencode/config/compose-config.ts"

export const SAVED_CONFIG_FACT = "agent.runtime"
const SEALED = "sealed:"
const PURPOSE = "the saved configuration of the agent"

export interface SavedConfig {
  readonly read: () => RuntimeConfig
  readonly write: (config: RuntimeConfig) => void
}

/** `token`: undefined where the runner has none of its environment, as under `sandpiper up`; then nothing is encrypted. */
export const openSavedConfig = (
  db: Database,
  token: () => string | undefined,
  log: Pick<Log, "info" | "warn">,
): SavedConfig => {
  const write = (text: string) => {
    const secret = token()
    const stored = secret === undefined ? text : `${SEALED}${seal(secret, PURPOSE, text)}`
    writeFact(db, SAVED_CONFIG_FACT, stored)
  }
  /** Of a runner that did not encrypt it: its bytes in the file are overwritten. */
  const encrypt = (text: string) => {
    const scrubbed = scrubFact(db, SAVED_CONFIG_FACT)
    try {
      write(text)
      writeOut(db)
    } catch (error) {
      log.warn("agent.saved-config-not-encrypted", { error: describeError(error) })
      scrubbed?.putBack()
    }
  }
  const open = (stored: string): string | undefined => {
    const secret = token()
    if (stored.startsWith(SEALED))
      return secret === undefined ? undefined : unseal(secret, PURPOSE, stored.slice(SEALED.length))
    if (secret === undefined) return stored
    encrypt(stored)
    return stored
  }
  return {
    read: () => {
      const stored = readFact(db, SAVED_CONFIG_FACT)
      if (stored === undefined) return {}
      const text = open(stored)
      // The session agent sends it again.
      if (text === undefined) log.info("agent.saved-config-not-readable")
      return text === undefined ? {} : JSON.parse(text)
    },
    write: (config) => write(JSON.stringify(config)),
  }
}
