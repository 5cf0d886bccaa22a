/** Logins of the page in a database, for a host without files: the directory's. Only hashes are stored. */
import { z } from "zod"
import type { RemotePageLogins } from "../../lib/page/page-logins.ts"
import {
  cookieSeconds,
  findLogin,
  LOGIN_CODE_MS,
  type PageLogin,
  withLogin,
  withoutLogins,
  withUse,
} from "../page-login-state.ts"
import { hashOf } from "../keys.ts"
import { addColumns } from "../session/add-columns.ts"
import type { Sql } from "../session/ports.ts"
import { hasRow, readRows } from "../session/rows.ts"
import { randomToken } from "./random-token.ts"

export interface StoredPageLogins extends RemotePageLogins {
  /** A new code for a login link, valid once within 10 minutes. */
  readonly issueCode: () => Promise<{ readonly code: string; readonly expiresAt: number }>
}

const loginRow = z.object({
  cookie: z.string(),
  key: z.string(),
  createdAt: z.number(),
  usedAt: z.number(),
  sealed: z
    .string()
    .nullable()
    .transform((text) => text ?? undefined),
  who: z
    .string()
    .nullable()
    .transform((text) => text ?? undefined),
})

export const createStoredPageLogins = (sql: Sql, now: () => number): StoredPageLogins => {
  sql.run(
    "CREATE TABLE IF NOT EXISTS login_codes (hash TEXT PRIMARY KEY, expires_at INTEGER NOT NULL)",
  )
  sql.run(
    "CREATE TABLE IF NOT EXISTS page_logins (cookie TEXT PRIMARY KEY, key TEXT NOT NULL, created_at INTEGER NOT NULL, used_at INTEGER NOT NULL)",
  )
  addColumns(sql, [
    ["page_logins", "sealed", "TEXT"],
    ["page_logins", "who", "TEXT"],
  ])
  const read = (): readonly PageLogin[] =>
    readRows(
      sql,
      loginRow,
      "SELECT cookie, key, created_at AS createdAt, used_at AS usedAt, sealed, who FROM page_logins",
    )
  const store = (logins: readonly PageLogin[]) =>
    sql.transaction(() => {
      sql.run("DELETE FROM page_logins")
      for (const { cookie, key, createdAt, usedAt, sealed, who } of logins)
        sql.run(
          "INSERT INTO page_logins (cookie, key, created_at, used_at, sealed, who) VALUES (?, ?, ?, ?, ?, ?)",
          cookie,
          key,
          createdAt,
          usedAt,
          sealed ?? null,
          who ?? null,
        )
    })
  return {
    issueCode: async () => {
      const code = randomToken()
      const expiresAt = now() + LOGIN_CODE_MS
      const hash = await hashOf(code)
      sql.run("DELETE FROM login_codes WHERE expires_at <= ?", now())
      sql.run("INSERT INTO login_codes (hash, expires_at) VALUES (?, ?)", hash, expiresAt)
      return { code, expiresAt }
    },
    redeem: async (code) => {
      const hash = await hashOf(code)
      const [cookie, key] = [randomToken(), randomToken()]
      const [cookieHash, keyHash] = await Promise.all([hashOf(cookie), hashOf(key)])
      const at = now()
      const isAccepted = hasRow(
        sql,
        "DELETE FROM login_codes WHERE hash = ? AND expires_at > ? RETURNING hash",
        hash,
        at,
      )
      if (!isAccepted) return undefined
      const login = { cookie: cookieHash, key: keyHash, createdAt: at, usedAt: at }
      store(withLogin(read(), login, at))
      return { cookie, key, maxAgeSeconds: cookieSeconds(login, at) }
    },
    begin: async ({ cookie, key, sealed, who }) => {
      const [cookieHash, keyHash] = await Promise.all([hashOf(cookie), hashOf(key)])
      const at = now()
      const login = { cookie: cookieHash, key: keyHash, createdAt: at, usedAt: at, sealed, who }
      store(withLogin(read(), login, at))
      return { maxAgeSeconds: cookieSeconds(login, at) }
    },
    use: async (cookies, key) => {
      const hashes = await Promise.all(cookies.map(hashOf))
      const keyHash = await hashOf(key)
      const at = now()
      const logins = read()
      const found = findLogin(logins, hashes, keyHash, at)
      if (!found) return undefined
      const cookie = cookies[hashes.indexOf(found.login.cookie)] ?? ""
      if (found.due) store(withUse(logins, found.login, at))
      const { login, due } = found
      const renewSeconds = due ? cookieSeconds(login, at) : undefined
      return { cookie, renewSeconds, sealed: login.sealed }
    },
    endAll: (who) => {
      store(withoutLogins(read(), who))
      if (who === undefined) sql.run("DELETE FROM login_codes")
    },
  }
}
