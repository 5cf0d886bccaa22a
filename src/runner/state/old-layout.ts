/**
 * Earlier versions had one database and no parts. What they have written becomes the two parts, once; a migration that was
 * killed goes on at the next start. The old layout does not name its session: the caller knows it.
 */
import { Database } from "bun:sqlite"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { openStateDb, STATE_DB } from "../../lib/state-db.ts"
import { machineFolder, sessionFolder } from "../../lib/state-folders.ts"
import { writeOwner } from "./owner-mark.ts"
import { moveTree, removeTree } from "./remove-tree.ts"

const OF_A_SESSION = [
  STATE_DB,
  `${STATE_DB}-wal`,
  `${STATE_DB}-shm`,
  "opencode",
  "opencode.log",
  "opencode-run.json",
  "persona",
]
/** Written again by each start, and sockets. The logs of services were beside their sockets. */
const WRITTEN_AGAIN = ["bin", "broker.sock", "control-url", "control.json", "git", "services"]
const MACHINE_FACTS = ["env-files", "host.life", "host.pulled-at", "services.boot"]

const NEW_TABLE = "CREATE TABLE IF NOT EXISTS machine."

const draftOf = (stateDir: string): string => `${sessionFolder(stateDir)}.draft`

export const hasOldLayout = (stateDir: string): boolean =>
  [join(stateDir, STATE_DB), join(stateDir, "opencode"), draftOf(stateDir)].some((path) =>
    existsSync(path),
  )

export const migrateOldLayout = (stateDir: string, sessionId: string): void => {
  const draft = draftOf(stateDir)
  for (const name of OF_A_SESSION) moveTree(join(stateDir, name), join(draft, name))
  for (const name of WRITTEN_AGAIN) removeTree(join(stateDir, name))
  const machine = machineFolder(stateDir)
  openStateDb(machine).close()
  const db = openStateDb(draft)
  try {
    moveRows(db, join(machine, STATE_DB))
  } finally {
    db.close()
  }
  writeOwner(machine, sessionId)
  writeOwner(draft, sessionId)
  removeTree(sessionFolder(stateDir))
  moveTree(draft, sessionFolder(stateDir))
}

const moveRows = (db: Database, machineFile: string): void => {
  db.query("ATTACH ? AS machine").run(machineFile)
  const services = db
    .query<{ sql: string }, []>("SELECT sql FROM main.sqlite_schema WHERE name = 'services'")
    .get()
  const facts = MACHINE_FACTS.map((name) => `'${name}'`).join(", ")
  const create = services?.sql.replace(/^CREATE TABLE (IF NOT EXISTS )?/, NEW_TABLE)
  // A transaction of both files is not atomic: the rows are in the new file before they leave the old one.
  db.transaction(() => {
    db.run(
      `INSERT OR REPLACE INTO machine.facts SELECT name, value FROM main.facts WHERE name IN (${facts})`,
    )
    if (create === undefined) return
    db.run(create)
    db.run("INSERT OR REPLACE INTO machine.services SELECT * FROM main.services")
  })()
  db.run(`DELETE FROM main.facts WHERE name IN (${facts})`)
  db.run("DROP TABLE IF EXISTS main.services")
  db.run("DETACH machine")
}
