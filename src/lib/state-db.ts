/** The state directory's database: what must survive a crash is written here, in one place and in order. */
import { Database } from "bun:sqlite"
import { chmodSync, mkdirSync } from "node:fs"
import { join } from "node:path"

/**
 * WAL with `synchronous=NORMAL`: a commit costs microseconds and survives the death of the process; only a loss
 * of power may take the last commits, never the file.
 */
export const openStateDb = (stateDir: string): Database => {
  try {
    return openIn(stateDir)
  } catch (error) {
    throw new Error(`the state directory ${stateDir} cannot be used (SANDPIPER_STATE_DIR)`, {
      cause: error,
    })
  }
}

const openIn = (stateDir: string): Database => {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 })
  const path = join(stateDir, "state.db")
  const db = new Database(path, { create: true, strict: true })
  try {
    chmodSync(path, 0o600)
    for (const statement of setUp) db.run(statement)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

const setUp = [
  "PRAGMA journal_mode = WAL",
  "PRAGMA synchronous = NORMAL",
  "PRAGMA busy_timeout = 2000",
  "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
]

/** Small named values: the epoch, the channel map, the last configuration. */
export const readFact = (db: Database, name: string): string | undefined =>
  db.query<{ value: string }, [string]>("SELECT value FROM facts WHERE name = ?").get(name)?.value

export const writeFact = (db: Database, name: string, value: string): void => {
  db.query(
    "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
  ).run(name, value)
}

/** Takes a value out of the file, its bytes too; whoever still needs it puts it back. */
export const scrubFact = (
  db: Database,
  name: string,
): { readonly putBack: () => void } | undefined => {
  const value = readFact(db, name)
  if (value === undefined) return undefined
  db.run("PRAGMA secure_delete = ON")
  db.query("DELETE FROM facts WHERE name = ?").run(name)
  return { putBack: () => writeFact(db, name, value) }
}

/** Everything in one file, with nothing left in the log beside it. */
export const writeOut = (db: Database): void => {
  db.run("PRAGMA wal_checkpoint(TRUNCATE)")
}
