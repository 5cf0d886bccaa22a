/** Share links of a session, `sps_<id>_<secret>`: a role for the holder until the link expires or is revoked. */
import { sameText } from "../../lib/constant-time.ts"
import { hashOf } from "../keys.ts"
import { one, type Sql } from "../session/ports.ts"
import type { Role } from "./ownership.ts"
import { nameOfKey, type ShareLinkHolder, shareLinkPrincipal } from "./principal.ts"
import { randomHex, randomToken } from "./random-token.ts"

export interface ShareLink {
  readonly id: string
  readonly role: SharedRole
  readonly createdBy: string
  readonly createdAt: number
  readonly expiresAt: number
  readonly revokedAt?: number
}

/** A link cannot make its holder an owner: it can be forwarded to anybody. */
export type SharedRole = Exclude<Role, "owner">

export interface ShareLinks {
  /** `token` is the only copy. `lifetimeMs` is at most 30 days; the link ends at `latest` at the latest. */
  readonly create: (
    session: string,
    role: SharedRole,
    lifetimeMs: number,
    by: string,
    latest?: number,
  ) => Promise<{ readonly token: string; readonly link: ShareLink }>
  readonly list: (session: string) => readonly ShareLink[]
  readonly verify: (session: string, token: string) => Promise<ShareLinkHolder | undefined>
  /** False when the link was revoked or has expired; for connections that were opened with it. */
  readonly isActive: (session: string, id: string) => boolean
  /** Revokes the links that were made with an API key. */
  readonly revokeMadeBy: (session: string, key: string) => void
  /** False when the session has no active link with this id. */
  readonly revoke: (session: string, id: string) => boolean
}

interface Row {
  id: string
  hash: string
  role: SharedRole
  created_by: string
  created_at: number
  expires_at: number
  revoked_at: number | null
}

const FORM = /^sps_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/
const LONGEST_MS = 30 * 24 * 60 * 60_000

export const looksLikeShareLink = (token: string): boolean => token.startsWith("sps_")

export const createShareLinks = (sql: Sql, now: () => number): ShareLinks => {
  sql.run(`CREATE TABLE IF NOT EXISTS share_links (
    session TEXT NOT NULL, id TEXT NOT NULL, hash TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'editor')), created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, revoked_at INTEGER, PRIMARY KEY (session, id))`)
  return {
    create: async (session, role, lifetimeMs, by, latest = Number.POSITIVE_INFINITY) => {
      if (!(lifetimeMs > 0 && lifetimeMs <= LONGEST_MS)) {
        throw new Error("A share link must expire within 30 days.")
      }
      const id = randomHex(6)
      const token = `sps_${id}_${randomToken()}`
      const row: Row = {
        id,
        hash: await hashOf(token),
        role,
        created_by: by,
        created_at: now(),
        expires_at: Math.min(now() + lifetimeMs, latest),
        revoked_at: null,
      }
      sql.run(
        "INSERT INTO share_links (session, id, hash, role, created_by, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        session,
        row.id,
        row.hash,
        row.role,
        row.created_by,
        row.created_at,
        row.expires_at,
      )
      return { token, link: viewOf(row) }
    },
    list: (session) =>
      sql
        .all<Row>(
          "SELECT * FROM share_links WHERE session = ? ORDER BY created_at DESC, id LIMIT 1000",
          session,
        )
        .map(viewOf),
    verify: async (session, token) => {
      const id = FORM.exec(token)?.[1]
      if (id === undefined) return undefined
      const hash = await hashOf(token)
      const row = one(
        sql.all<Row>("SELECT * FROM share_links WHERE session = ? AND id = ?", session, id),
      )
      if (!row || !sameText(hash, row.hash) || row.revoked_at !== null || row.expires_at <= now()) {
        return undefined
      }
      return shareLinkPrincipal(row.id, session, row.role, row.expires_at)
    },
    isActive: (session, id) =>
      sql.all(
        "SELECT 1 FROM share_links WHERE session = ? AND id = ? AND revoked_at IS NULL AND expires_at > ?",
        session,
        id,
        now(),
      ).length > 0,
    revokeMadeBy: (session, key) =>
      sql.run(
        "UPDATE share_links SET revoked_at = ? WHERE session = ? AND revoked_at IS NULL AND substr(created_by, 1, ?) = ?",
        now(),
        session,
        nameOfKey(key).length,
        nameOfKey(key),
      ),
    revoke: (session, id) =>
      sql.all(
        "UPDATE share_links SET revoked_at = ? WHERE session = ? AND id = ? AND revoked_at IS NULL RETURNING id",
        now(),
        session,
        id,
      ).length > 0,
  }
}

const viewOf = (row: Row): ShareLink => ({
  id: row.id,
  role: row.role,
  createdBy: row.created_by,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  ...(row.revoked_at !== null && { revokedAt: row.revoked_at }),
})
