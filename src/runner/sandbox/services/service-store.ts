/** The services of the agent on disk: what each one is, and whether it should run. */
import type { Database } from "bun:sqlite"

export interface ServiceSpec {
  readonly name: string
  /** A shell command. */
  readonly command: string
  /** Relative to the workspace. */
  readonly cwd: string
  /** The service is ready when it listens on this port. */
  readonly port: number | undefined
}

export interface StoredService extends ServiceSpec {
  /** False after a stop: it is not started again by itself. */
  readonly wanted: boolean
}

export interface ServiceStore {
  /** In the order of their first start. */
  readonly all: () => readonly StoredService[]
  readonly save: (service: StoredService) => void
  readonly remove: (name: string) => void
}

interface Row {
  readonly name: string
  readonly command: string
  readonly cwd: string
  readonly port: number | null
  readonly wanted: number
}

export const openServiceStore = (db: Database): ServiceStore => {
  db.run(`CREATE TABLE IF NOT EXISTS services (
    place INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, command TEXT NOT NULL, cwd TEXT NOT NULL,
    port INTEGER, wanted INTEGER NOT NULL) STRICT`)
  const all = db.query<Row, []>(
    "SELECT name, command, cwd, port, wanted FROM services ORDER BY place",
  )
  const save =
    db.query(`INSERT INTO services (name, command, cwd, port, wanted) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET command = excluded.command, cwd = excluded.cwd, port = excluded.port,
    wanted = excluded.wanted`)
  const remove = db.query("DELETE FROM services WHERE name = ?")
  return {
    all: () =>
      all.all().map(({ port, wanted, ...row }) => ({
        ...row,
        port: port ?? undefined,
        wanted: wanted === 1,
      })),
    save: ({ name, command, cwd, port, wanted }) =>
      void save.run(name, command, cwd, port ?? null, Number(wanted)),
    remove: (name) => void remove.run(name),
  }
}
