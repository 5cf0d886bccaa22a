/** What the runner knows of the display folder, in its database. */
import type { Database } from "bun:sqlite"
import type { Known } from "./display-state.ts"

export interface DisplayStore {
  /** Undefined until the folder was looked at for the first time. */
  readonly load: () => Known | undefined
  /** Replaces everything. Inside a transaction of the caller, if there is one. */
  readonly save: (known: Known) => void
}

interface Row {
  readonly path: string
  readonly stamp: string
  readonly sha256: string | null
}

/** A row of its own says that the folder was looked at, also when it was empty. */
const LOOKED = ""

export const openDisplayStore = (db: Database): DisplayStore => {
  db.run(
    "CREATE TABLE IF NOT EXISTS display_files (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, sha256 TEXT) STRICT",
  )
  const all = db.query<Row, []>("SELECT path, stamp, sha256 FROM display_files")
  const add = db.query<unknown, [string, string, string | null]>(
    "INSERT INTO display_files (path, stamp, sha256) VALUES (?, ?, ?)",
  )
  return {
    load: () => {
      const rows = all.all()
      if (rows.length === 0) return undefined
      return new Map(
        rows
          .filter(({ path }) => path !== LOOKED)
          .map(({ path, stamp, sha256 }) => [path, { stamp, sha256: sha256 ?? undefined }]),
      )
    },
    save: db.transaction((known: Known) => {
      db.run("DELETE FROM display_files")
      add.run(LOOKED, "", null)
      for (const [path, { stamp, sha256 }] of known) add.run(path, stamp, sha256 ?? null)
    }),
  }
}
