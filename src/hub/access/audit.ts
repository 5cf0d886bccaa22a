/**
 * The audit log: who did what to which session, when and from where. Append-only, per owner, never with contents. Each
 * owner's oldest entries are removed when there are too many of them or when they are too old; the database refuses every
 * other change.
 */
import { addColumns } from "../session/add-columns.ts"
import { one, type Sql } from "../session/ports.ts"
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

export interface Retention {
  /** Newest entries that are kept per owner. */
  readonly entries: number
  /** Entries that are older than the owner's newest one by more than this are removed. */
  readonly ageMs: number
}

/** 400 days: more than a year, so that an event can be compared with the same time of the year before. */
const defaultRetention: Retention = {
  entries: 100_000,
  ageMs: 400 * 24 * 60 * 60_000,
}

/** How many entries one append removes at most: the log shrinks faster than it grows. */
const PRUNED_AT_ONCE = 20

const statements = [
  `CREATE TABLE IF NOT EXISTS audit (
    place INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, at INTEGER NOT NULL, who TEXT NOT NULL,
    action TEXT NOT NULL, session TEXT, source TEXT)`,
  "CREATE INDEX IF NOT EXISTS audit_owner ON audit (owner, place)",
  // The database refuses what no code may do.
  `CREATE TRIGGER IF NOT EXISTS audit_no_update BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END`,
]

/** The numbers are part of the trigger: entries within the retention cannot be deleted by any statement. */
const deleteTrigger = ({ entries, ageMs }: Retention) =>
  `CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
    WHEN OLD.n > (SELECT n FROM audit WHERE owner = OLD.owner ORDER BY place DESC LIMIT 1) - ${entries}
      AND OLD.at >= (SELECT at FROM audit WHERE owner = OLD.owner ORDER BY place DESC LIMIT 1) - ${ageMs}
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END`

export const createAudit = (
  sql: Sql,
  now: () => number,
  retention: Retention = defaultRetention,
): Audit => {
  for (const statement of statements) sql.run(statement)
  // `n` counts the entries of one owner. Entries of an older version have none and count as the oldest.
  addColumns(sql, [["audit", "n", "INTEGER NOT NULL DEFAULT 0"]])
  sql.run("DROP TRIGGER IF EXISTS audit_no_delete")
  sql.run(deleteTrigger(retention))
  const lastOf = (owner: Owner): number =>
    one(
      sql.all<{ n: number }>(
        "SELECT n FROM audit WHERE owner = ? ORDER BY place DESC LIMIT 1",
        owner,
      ),
    )?.n ?? 0
  const prune = (owner: Owner, last: number, at: number) =>
    sql.run(
      `DELETE FROM audit WHERE place IN (SELECT place FROM audit WHERE owner = ? ORDER BY place LIMIT ?)
        AND (n <= ? OR at < ?)`,
      owner,
      PRUNED_AT_ONCE,
      last - retention.entries,
      at - retention.ageMs,
    )
  return {
    append: ({ owner, principal, action, session, from }) =>
      sql.transaction(() => {
        const n = lastOf(owner) + 1
        const at = now()
        sql.run(
          "INSERT INTO audit (owner, n, at, who, action, session, source) VALUES (?, ?, ?, ?, ?, ?, ?)",
          owner,
          n,
          at,
          nameOf(principal),
          action,
          session ?? null,
          from?.slice(0, LONGEST_SOURCE) ?? null,
        )
        prune(owner, n, at)
      }),
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
