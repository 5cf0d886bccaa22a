/** Small named values of a session: public ones, which clients see, and private ones (hashes, keys, config). */
import { z } from "zod"
import { parseJson } from "../../lib/json.ts"
import type { Changes } from "./changes.ts"
import type { Sql } from "./ports.ts"
import { type AgentConfig, hasRow, readConfig, readRow, valueRow } from "./rows.ts"

export interface NamedValues {
  /** Clients are notified when the value differs. */
  readonly setPublic: (name: string, value: unknown) => void
  readonly getPublic: (name: string) => unknown
  /** Clients are notified with `null`, and snapshots do not hold it any more. */
  readonly removePublic: (name: string) => void
  readonly setPrivate: (name: string, value: string) => void
  readonly getPrivate: (name: string) => string | undefined
  /** The agent's config; private, because it holds keys. Its row is encrypted. */
  readonly config: () => AgentConfig
  /** After the commit that stored the encrypted row: the plain text stays in memory only. */
  readonly setConfig: (text: string) => void
}

/** `config`: the decrypted text of the config's row. */
export const createNamedValues = (
  sql: Sql,
  changes: Changes,
  config: string | undefined,
): NamedValues => {
  let current = readConfig(config)
  const read = (table: "state" | "meta", name: string) =>
    readRow(sql, valueRow, `SELECT value FROM ${table} WHERE name = ?`, name)?.value
  const getPrivate = (name: string) => read("meta", name)
  return {
    setPublic: (name, value) => {
      const text = JSON.stringify(value)
      if (read("state", name) === text) return
      sql.run("INSERT OR REPLACE INTO state (name, value) VALUES (?, ?)", name, text)
      changes.record("state", name)
    },
    removePublic: (name) => {
      const removed = hasRow(sql, "DELETE FROM state WHERE name = ? RETURNING name", name)
      if (removed) changes.record("state", name)
    },
    getPublic: (name) => {
      const text = read("state", name)
      return text === undefined ? undefined : parseJson(text)
    },
    setPrivate: (name, value) =>
      sql.run("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", name, value),
    getPrivate,
    config: () => current,
    setConfig: (text) => {
      current = readConfig(text)
    },
  }
}

/** The session's title is a person's choice from now on: the agent does not change it. */
export const renameSession = (values: NamedValues, title: string): void => {
  values.setPrivate("renamed", "1")
  values.setPublic("title", title)
}

/** The row of a pull request: from the request that changed it, and from the runner's frame about a new one. */
export const setPull = (
  values: NamedValues,
  {
    number,
    title,
    url,
    status,
  }: {
    readonly number: number
    readonly title: string
    readonly url: string
    readonly status: string
  },
): void => values.setPublic(`pr:${number}`, { number, title, url, status })

const endedSession = z.object({ status: z.literal("ended") })

/** The number of the session's last sandbox; 0: the fleet has started none. */
export const readGeneration = (values: Pick<NamedValues, "getPrivate">): number =>
  Number(values.getPrivate("generation") ?? 0)

/** An ended session stays ended: it accepts no runner and no prompt. */
export const hasEnded = (values: NamedValues): boolean =>
  endedSession.safeParse(values.getPublic("session")).success
