/** The session's SQL port on bun:sqlite. WAL: a commit survives the death of the process. */
import { Database } from "bun:sqlite"
import { chmodSync, mkdirSync } from "node:fs"
import { dirname } from "node:path"
import type { Sql, SqlValue } from "../../session/ports.ts"

export interface BunSql extends Sql {
  /** Removes deleted text from the file and from its write-ahead log. */
  readonly compact: () => void
  readonly close: () => void
}

export const openBunSql = (path: string): BunSql => {
  if (path !== ":memory:") mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const db = new Database(path, { create: true })
  if (path !== ":memory:") chmodSync(path, 0o600)
  db.run("PRAGMA journal_mode = WAL")
  db.run("PRAGMA synchronous = NORMAL")
  db.run("PRAGMA busy_timeout = 2000")
  let depth = 0
  return {
    all: <Row>(query: string, ...values: readonly SqlValue[]) =>
      db.query<Row, SqlValue[]>(query).all(...values),
    run: (query, ...values) => void db.query<unknown, SqlValue[]>(query).run(...values),
    transaction: (work) => {
      if (depth > 0) return work()
      depth += 1
      try {
        return db.transaction(work).immediate()
      } finally {
        depth -= 1
      }
    },
    compact: () => {
      db.run("VACUUM")
      db.run("PRAGMA wal_checkpoint(TRUNCATE)")
    },
    close: () => db.close(),
  }
}
