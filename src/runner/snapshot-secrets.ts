/** Removes secrets from the state directory before a snapshot, and writes them back if the sandbox continues. */
import type { Database } from "bun:sqlite"
import { join } from "node:path"
import { scrubFact } from "../lib/state-db.ts"
import { sessionFolder } from "../lib/state-folders.ts"
import { scrubField, scrubFiles, type Scrubbed } from "./host/detect-restore.ts"
import { agentDirectories } from "./opencode/config/config-directories.ts"
import { RUN_RECORD } from "./opencode/launch/run-record.ts"

export const scrubSecrets = async (
  stateDir: string,
  db: Database,
  secretFacts: readonly string[],
): Promise<Scrubbed> => {
  const { authFile, configFile } = agentDirectories(stateDir)
  // The configuration may contain the headers of MCP servers.
  const files = await scrubFiles([authFile, configFile])
  // Only the password is removed: the rest of the record is needed to find and end that OpenCode process.
  const record = await scrubField(join(sessionFolder(stateDir), RUN_RECORD), "password")
  const facts = secretFacts.flatMap((name) => scrubFact(db, name) ?? [])
  return {
    files: [...files.files, ...record.files, ...(facts.length > 0 ? ["state.db"] : [])],
    putBack: async () => {
      await files.putBack()
      await record.putBack()
      for (const fact of facts) fact.putBack()
    },
  }
}
