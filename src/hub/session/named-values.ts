/** Small named values of a session: those that clients see, and those that they must not. */
import type { Changes } from "./changes.ts"
import { one, type Sql } from "./ports.ts"

export interface State {
  /** Shown to clients, and told to them when it differs. */
  readonly show: (name: string, value: unknown) => void
  readonly shown: (name: string) => unknown
  /** Kept from clients: hashes, keys. */
  readonly keep: (name: string, value: string) => void
  readonly kept: (name: string) => string | undefined
}

export const createState = (sql: Sql, changes: Changes): State => {
  const read = (table: "state" | "meta", name: string) =>
    one(sql.all<{ value: string }>(`SELECT value FROM ${table} WHERE name = ?`, name))?.value
  return {
    show: (name, value) => {
      const text = JSON.stringify(value)
      if (read("state", name) === text) return
      sql.run("INSERT OR REPLACE INTO state (name, value) VALUES (?, ?)", name, text)
      changes.note("state", name)
    },
    shown: (name) => {
      const text = read("state", name)
      return text === undefined ? undefined : (JSON.parse(text) as unknown)
    },
    keep: (name, value) =>
      sql.run("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", name, value),
    kept: (name) => read("meta", name),
  }
}

/** For good: an ended session lets no runner in. */
export const hasEnded = (state: State): boolean =>
  (state.shown("session") as { status?: string } | undefined)?.status === "ended"
