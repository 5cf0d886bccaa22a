/**
 * The lock of a state directory. SQLite takes a lock of the kernel that belongs to the process: it ends with its owner, even
 * after SIGKILL, and children do not inherit it.
 */
import { Database } from "bun:sqlite"
import { mkdirSync } from "node:fs"
import { join } from "node:path"

export interface Lock {
  readonly release: () => void
}

/** Undefined if another process holds the lock. The owner keeps the result: a collected one frees the lock. */
export const takeLock = (stateDir: string): Lock | undefined => {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 })
  const db = new Database(join(stateDir, "lock.db"), { create: true })
  try {
    db.run("PRAGMA busy_timeout = 0")
    db.run("BEGIN EXCLUSIVE")
    return { release: () => db.close() }
  } catch (error) {
    db.close()
    if ((error as { code?: string }).code?.startsWith("SQLITE_BUSY")) return undefined
    throw error
  }
}
