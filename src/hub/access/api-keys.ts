/** API keys, `spk_<prefix>_<secret>`: only the SHA-256 of a key is stored, so a copy of the database opens nothing. */
import { sameText } from "../../lib/constant-time.ts"
import { hashOf } from "../keys.ts"
import { addColumns } from "../session/add-columns.ts"
import { one, type Sql } from "../session/ports.ts"
import { type Owner, parseOwner } from "./ownership.ts"
import type { Person } from "./principal.ts"
import { randomHex, randomToken } from "./random-token.ts"
import { knownScopes, type Scope } from "./scopes.ts"

export interface ApiKey {
  /** Public: shown in lists, names the key when it is revoked. */
  readonly prefix: string
  readonly owner: Owner
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly createdAt: number
  readonly expiresAt?: number
  readonly revokedAt?: number
  readonly lastUsedAt?: number
}

export interface NewApiKey {
  readonly owner: Owner
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly expiresAt?: number
  /** The prefix of the key that makes this one, which ends with it. */
  readonly madeBy?: string
}

export interface ApiKeys {
  /** `key` is the only copy of the secret. */
  readonly create: (input: NewApiKey) => Promise<{ readonly key: string; readonly row: ApiKey }>
  /** Newest first, revoked ones included. */
  readonly list: (owner: Owner) => readonly ApiKey[]
  readonly verify: (key: string) => Promise<Person | undefined>
  /** Revokes a key and every key that was made with it. Returns their prefixes: none if the owner has no such active key. */
  readonly revoke: (owner: Owner, prefix: string) => readonly string[]
}

interface Row {
  prefix: string
  hash: string
  owner: string
  name: string
  scopes: string
  created_at: number
  expires_at: number | null
  revoked_at: number | null
  last_used_at: number | null
}

const FORM = /^spk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/
/** A write per request would be the most expensive part of it; a minute is exact enough for people. */
const LAST_USED_MS = 60_000
const LONGEST_NAME = 100

export const looksLikeApiKey = (token: string): boolean => token.startsWith("spk_")

export const createApiKeys = (sql: Sql, now: () => number): ApiKeys => {
  sql.run(`CREATE TABLE IF NOT EXISTS api_keys (
    prefix TEXT PRIMARY KEY, hash TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER, last_used_at INTEGER)`)
  // A table of an older version does not have it.
  addColumns(sql, [["api_keys", "made_by", "TEXT"]])
  sql.run("CREATE INDEX IF NOT EXISTS api_keys_owner ON api_keys (owner, created_at)")

  return {
    create: async ({ owner, name, scopes, expiresAt, madeBy }) => {
      const prefix = randomHex(6)
      const key = `spk_${prefix}_${randomToken()}`
      const row: Row = {
        prefix,
        hash: await hashOf(key),
        owner,
        name: name.slice(0, LONGEST_NAME),
        scopes: scopes.join(" "),
        created_at: now(),
        expires_at: expiresAt ?? null,
        revoked_at: null,
        last_used_at: null,
      }
      sql.run(
        "INSERT INTO api_keys (prefix, hash, owner, name, scopes, created_at, expires_at, made_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row.prefix,
        row.hash,
        row.owner,
        row.name,
        row.scopes,
        row.created_at,
        row.expires_at,
        madeBy ?? null,
      )
      return { key, row: viewOf(row, owner) }
    },
    list: (owner) =>
      sql
        .all<Row>(
          "SELECT * FROM api_keys WHERE owner = ? ORDER BY created_at DESC, prefix LIMIT 1000",
          owner,
        )
        .map((row) => viewOf(row, owner)),
    verify: async (key) => {
      const prefix = FORM.exec(key)?.[1]
      if (prefix === undefined) return undefined
      const hash = await hashOf(key)
      const row = one(sql.all<Row>("SELECT * FROM api_keys WHERE prefix = ?", prefix))
      if (!row || !sameText(hash, row.hash) || row.revoked_at !== null) return undefined
      if (row.expires_at !== null && row.expires_at <= now()) return undefined
      const owner = parseOwner(row.owner)
      if (owner === undefined) return undefined
      if (row.last_used_at === null || now() - row.last_used_at >= LAST_USED_MS) {
        sql.run("UPDATE api_keys SET last_used_at = ? WHERE prefix = ?", now(), prefix)
      }
      return personOf(viewOf(row, owner))
    },
    revoke: (owner, prefix) =>
      sql
        .all<{ prefix: string }>(
          `WITH RECURSIVE ended (prefix) AS (
             SELECT prefix FROM api_keys WHERE prefix = ? AND owner = ? AND revoked_at IS NULL
             UNION SELECT api_keys.prefix FROM api_keys JOIN ended ON api_keys.made_by = ended.prefix)
           UPDATE api_keys SET revoked_at = ?
           WHERE prefix IN (SELECT prefix FROM ended) AND revoked_at IS NULL RETURNING prefix`,
          prefix,
          owner,
          now(),
        )
        .map((row) => row.prefix),
  }
}

const viewOf = (row: Row, owner: Owner): ApiKey => ({
  prefix: row.prefix,
  owner,
  name: row.name,
  scopes: knownScopes(row.scopes.split(" ")),
  createdAt: row.created_at,
  ...(row.expires_at !== null && { expiresAt: row.expires_at }),
  ...(row.revoked_at !== null && { revokedAt: row.revoked_at }),
  ...(row.last_used_at !== null && { lastUsedAt: row.last_used_at }),
})

/** A key of `user:<sub>` acts as that person, a key of `org:<id>` as a member of the org without a `sub`. */
const personOf = ({ prefix, owner, name, scopes, expiresAt }: ApiKey): Person => ({
  kind: "person",
  key: prefix,
  name,
  scopes,
  ...(owner.startsWith("user:") ? { sub: owner.slice(5) } : { org: owner.slice(4) }),
  ...(expiresAt !== undefined && { expiresAt }),
})
