/** The audit log: who did what to which session, when and from where. Append-only, per owner, never with contents. */
import type { Sql } from "../session/ports.ts"
import type { Owner } from "./ownership.ts"
import { nameOf, type Principal } from "./principal.ts"
import type { Action } from "./table.ts"

export interface AuditEntry {
  /** Grows with every entry; also the cursor. */
  readonly place: number
  readonly at: number
  readonly who: string
  readonly action: string
  readonly session?: string
  /** The network address of the caller. */
  readonly from?: string
}

export interface Audit {
  readonly append: (entry: {
    readonly owner: Owner
    readonly principal: Principal
    readonly action: Action
    readonly session?: string | undefined
    readonly from?: string | undefined
  }) => void
  /** Newest first; `cursor` is the `next` of the page before. */
  readonly list: (
    owner: Owner,
    cursor?: number,
    limit?: number,
  ) => { readonly entries: readonly AuditEntry[]; readonly next?: number }
}

interface Row {
  place: number
  at: number
  who: string
  action: string
  session: string | null
  source: string | null
}

const MOST_LISTED = 500
const LONGEST_SOURCE = 64

const statements = [
  `CREATE TABLE IF NOT EXISTS audit (
    place INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, at INTEGER NOT NULL, who TEXT NOT NULL,
    action TEXT NOT NULL, session TEXT, source TEXT)`,
  "CREATE INDEX IF NOT EXISTS audit_owner ON audit (owner, place)",
  // The database refuses what no code may do.
  `CREATE TRIGGER IF NOT EXISTS audit_no_update BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END`,
  `CREATE TRIGGER IF NOT EXISTS audit_no_delete BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END`,
]

export const createAudit = (sql: Sql, now: () => number): Audit => {
  for (const statement of statements) sql.run(statement)
  return {
    append: ({ owner, principal, action, session, from }) =>
      sql.run(
        "INSERT INTO audit (owner, at, who, action, session, source) VALUES (?, ?, ?, ?, ?, ?)",
        owner,
        now(),
        nameOf(principal),
        action,
        session ?? null,
        from?.slice(0, LONGEST_SOURCE) ?? null,
      ),
    list: (owner, cursor = Number.MAX_SAFE_INTEGER, limit = 100) => {
      const most = Math.min(Math.max(1, Math.trunc(limit) || 1), MOST_LISTED)
      const rows = sql.all<Row>(
        "SELECT place, at, who, action, session, source FROM audit WHERE owner = ? AND place < ? ORDER BY place DESC LIMIT ?",
        owner,
        cursor,
        most,
      )
      const last = rows.at(-1)
      return {
        entries: rows.map(viewOf),
        ...(rows.length === most && last && { next: last.place }),
      }
    },
  }
}

const viewOf = ({ place, at, who, action, session, source }: Row): AuditEntry => ({
  place,
  at,
  who,
  action,
  ...(session !== null && { session }),
  ...(source !== null && { from: source }),
})
