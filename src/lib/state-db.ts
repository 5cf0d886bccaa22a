/** The SQLite database in a part of the state directory: everything that must survive a crash. */
import { Database } from "bun:sqlite"
import { chmodSync, mkdirSync } from "node:fs"
import { join } from "node:path"

export const STATE_DB = "state.db"

/**
 * WAL with `synchronous=NORMAL`: a commit takes microseconds and survives a crash of the process. A power failure may
 * lose the last commits but does not corrupt the file.
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
  const path = join(stateDir, STATE_DB)
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

/** Facts are small named values: the epoch, the API token, the last configuration. */
export const readFact = (db: Database, name: string): string | undefined =>
  db.query<{ value: string }, [string]>("SELECT value FROM facts WHERE name = ?").get(name)?.value

export const writeFact = (db: Database, name: string, value: string): void => {
  db.query(
    "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
  ).run(name, value)
}

/** One fact as a small memory of its own. */
export const factOf = (db: Database, name: string) => ({
  read: () => readFact(db, name),
  write: (text: string) => writeFact(db, name, text),
})

/** Deletes a value and overwrites its bytes in the file. `putBack` restores it. */
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

/** Moves everything from the write-ahead log into the database file. */
export const writeOut = (db: Database): void => {
  db.run("PRAGMA wal_checkpoint(TRUNCATE)")
}
