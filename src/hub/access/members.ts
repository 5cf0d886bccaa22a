/** Members of sessions: people with a role in a session they do not own. */
import { one, type Sql } from "../session/ports.ts"
import { isIdentifier, isRole, type Member, type Role } from "./ownership.ts"

export interface Members {
  /** Adds the member or changes its role. Throws when `sub` is not usable or the session has too many members. */
  readonly set: (session: string, sub: string, role: Role, by: string) => void
  /** False when there is no such member. Open connections of the member must be checked again afterwards. */
  readonly remove: (session: string, sub: string) => boolean
  readonly of: (session: string) => readonly Member[]
}

const MOST_MEMBERS = 500

export const createMembers = (sql: Sql, now: () => number): Members => {
  sql.run(`CREATE TABLE IF NOT EXISTS members (
    session TEXT NOT NULL, sub TEXT NOT NULL, role TEXT NOT NULL CHECK (role IN ('viewer', 'editor', 'owner')),
    added_by TEXT NOT NULL, added_at INTEGER NOT NULL, PRIMARY KEY (session, sub))`)
  const count = (session: string) =>
    one(sql.all<{ n: number }>("SELECT count(*) AS n FROM members WHERE session = ?", session))?.n
  return {
    set: (session, sub, role, by) => {
      if (!isIdentifier(sub)) {
        throw new Error("sub: expected 1 to 255 printable ASCII characters")
      }
      sql.transaction(() => {
        sql.run(
          `INSERT INTO members (session, sub, role, added_by, added_at) VALUES (?, ?, ?, ?, ?)
          ON CONFLICT (session, sub) DO UPDATE SET role = excluded.role, added_by = excluded.added_by`,
          session,
          sub,
          role,
          by,
          now(),
        )
        if ((count(session) ?? 0) > MOST_MEMBERS) {
          throw new Error(`A session can have at most ${MOST_MEMBERS} members.`)
        }
      })
    },
    remove: (session, sub) =>
      sql.all("DELETE FROM members WHERE session = ? AND sub = ? RETURNING sub", session, sub)
        .length > 0,
    of: (session) =>
      sql
        .all<{ sub: string; role: string }>(
          "SELECT sub, role FROM members WHERE session = ? ORDER BY added_at, sub",
          session,
        )
        .flatMap(({ sub, role }) => (isRole(role) ? [{ sub, role }] : [])),
  }
}
