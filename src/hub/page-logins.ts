/**
 * Login codes and logins of the page, in files of the state directory that only their owner can read. A code is a file
 * named by its hash: deleting it is what accepts it, so a code is accepted once, also across processes and restarts.
 */
import { createHash, randomBytes } from "node:crypto"
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { z } from "zod"
import { readJson } from "../lib/json.ts"
import { replaceFile } from "../lib/replace-file.ts"
import type { PageLogins } from "../lib/page/page-logins.ts"
import {
  cookieSeconds,
  findLogin,
  LOGIN_CODE_MS,
  type PageLogin,
  withLogin,
  withoutLogins,
  withUse,
} from "./page-login-state.ts"

const stored = z.array(
  z.object({
    cookie: z.string(),
    key: z.string(),
    createdAt: z.number(),
    usedAt: z.number(),
    sealed: z.string().optional(),
    who: z.string().optional(),
  }),
)

const codesFolder = (stateDir: string) => join(stateDir, "hub", "login-codes")

/** A new code for a login link, valid once within 10 minutes. */
export const issueLoginCode = (stateDir: string, now: number): string => {
  const folder = codesFolder(stateDir)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (const name of readdirSync(folder)) {
    if (!isFresh(folder, name, now)) rmSync(join(folder, name), { force: true })
  }
  const code = randomBytes(32).toString("base64url")
  writeFileSync(join(folder, hashOf(code)), String(now + LOGIN_CODE_MS), { mode: 0o600 })
  return code
}

export const openPageLogins = (stateDir: string, now: () => number): PageLogins => {
  const file = join(stateDir, "hub", "logins.json")
  const folder = codesFolder(stateDir)
  let logins: readonly PageLogin[] = readLogins(file)
  const store = (next: readonly PageLogin[]) => {
    logins = next
    mkdirSync(join(stateDir, "hub"), { recursive: true, mode: 0o700 })
    replaceFile(file, `${JSON.stringify(next)}\n`)
  }
  return {
    redeem: (code) => {
      const at = now()
      const name = hashOf(code)
      const isAccepted = isFresh(folder, name, at)
      if (!isDeleted(join(folder, name)) || !isAccepted) return undefined
      const cookie = randomBytes(32).toString("hex")
      const key = randomBytes(32).toString("base64url")
      const login = { cookie: hashOf(cookie), key: hashOf(key), createdAt: at, usedAt: at }
      store(withLogin(logins, login, at))
      return { cookie, key, maxAgeSeconds: cookieSeconds(login, at) }
    },
    begin: ({ cookie, key, sealed, who }) => {
      const at = now()
      const hashes = { cookie: hashOf(cookie), key: hashOf(key) }
      const login = { ...hashes, createdAt: at, usedAt: at, sealed, who }
      store(withLogin(logins, login, at))
      return { maxAgeSeconds: cookieSeconds(login, at) }
    },
    use: (cookies, key) => {
      const at = now()
      const hashes = cookies.map(hashOf)
      const found = findLogin(logins, hashes, hashOf(key), at)
      if (found === undefined) return undefined
      const cookie = cookies[hashes.indexOf(found.login.cookie)] ?? ""
      if (found.due) store(withUse(logins, found.login, at))
      const { login, due } = found
      const renewSeconds = due ? cookieSeconds(login, at) : undefined
      return { cookie, renewSeconds, sealed: login.sealed }
    },
    endAll: (who) => {
      if (who !== undefined) return store(withoutLogins(logins, who))
      logins = []
      rmSync(file, { force: true })
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const hashOf = (secret: string): string => createHash("sha256").update(secret).digest("hex")

const isFresh = (folder: string, name: string, now: number): boolean => {
  try {
    return now < Number(readFileSync(join(folder, name), "utf8"))
  } catch {
    return false
  }
}

/** True for the one caller that deleted the file. */
const isDeleted = (path: string): boolean => {
  try {
    rmSync(path)
    return true
  } catch {
    return false
  }
}

/** An unreadable file means that every browser has to log in again. */
const readLogins = (file: string): readonly PageLogin[] => {
  try {
    return readJson(stored, readFileSync(file, "utf8"))
  } catch {
    return []
  }
}
