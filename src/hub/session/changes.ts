/**
 * The change log: every change of what clients see has a number, `rev`. What is told live is what is read later, so a
 * client that slept asks with its last number and gets only what it missed.
 */
import { one, type Sockets, type Sql } from "./ports.ts"
import { readEntity } from "./client-views.ts"

export type ChangeKind =
  | "message"
  | "part"
  | "delta"
  | "queue"
  | "interaction"
  | "state"
  | "ask"
  | "artifact"
  | "usage"
  | "removed"

export interface ClientEvent {
  readonly type: string
  readonly [field: string]: unknown
}

export interface Changes {
  /** Notes that a thing has changed; clients hear of it when the transaction is through. */
  readonly note: (kind: Exclude<ChangeKind, "delta">, ref: string) => number
  /** Notes that a part's text has grown from `start` on. Told live already, when the words came. */
  readonly grown: (messageId: string, partId: string, start: number) => void
  /** Tells clients what was noted since the last time. */
  readonly tell: () => void
  /** The transaction did not go through: there is nothing to tell. */
  readonly drop: () => void
  readonly rev: () => number
  /** What changed after `cursor`, or nothing when that cannot be said any more. */
  readonly since: (cursor: number) => readonly ClientEvent[] | undefined
}

export const createChanges = (sql: Sql, sockets: Sockets): Changes => {
  let noted: { readonly rev: number; readonly kind: ChangeKind; readonly ref: string }[] = []
  let known: number | undefined
  const insert = (kind: ChangeKind, ref: string, start: number | null): number => {
    const row = one(
      sql.all<{ rev: number }>(
        "INSERT OR REPLACE INTO changes (kind, ref, start) VALUES (?, ?, ?) RETURNING rev",
        kind,
        ref,
        start,
      ),
    )
    known = row?.rev ?? 0
    return known
  }
  const latest = () => (known ??= newest(sql))
  return {
    note: (kind, ref) => {
      const rev = insert(kind, ref, null)
      noted = [
        ...noted.filter((other) => other.kind !== kind || other.ref !== ref),
        { rev, kind, ref },
      ]
      return rev
    },
    grown: (messageId, partId, start) => void insert("delta", refOf(messageId, partId), start),
    tell: () => {
      const told = noted
      noted = []
      for (const { rev, kind, ref } of told) {
        const event = readEntity(sql, kind, ref)
        if (event) sockets.broadcast(JSON.stringify({ rev, ...event }))
      }
    },
    drop: () => {
      noted = []
      known = undefined
    },
    rev: latest,
    since: (cursor) => (cursor > latest() ? undefined : changedSince(sql, cursor)),
  }
}

const newest = (sql: Sql): number =>
  one(sql.all<{ rev: number | null }>("SELECT max(rev) AS rev FROM changes"))?.rev ?? 0

/** More than this is not worth a replay: the snapshot says it shorter. */
const MOST = 2000

const changedSince = (sql: Sql, cursor: number): readonly ClientEvent[] | undefined => {
  const rows = sql.all<{ rev: number; kind: ChangeKind; ref: string; start: number | null }>(
    "SELECT rev, kind, ref, start FROM changes WHERE rev > ? ORDER BY rev LIMIT ?",
    cursor,
    MOST + 1,
  )
  if (rows.length > MOST) return undefined
  const whole = new Set(rows.flatMap(({ kind, ref }) => (kind === "part" ? [ref] : [])))
  const told = new Set<string>()
  const introduced = new Set<string>()
  return rows.flatMap(({ rev, kind, ref, start }) => {
    if (kind === "delta" && (whole.has(ref) || told.has(ref))) return []
    // The first stretch that was missed starts the one piece that tells them all.
    if (kind === "delta") told.add(ref)
    if (kind === "message") introduced.add(ref)
    const event = readEntity(sql, kind, ref, start ?? 0)
    if (!event) return []
    const message = String(event["messageId"])
    if ((kind !== "part" && kind !== "delta") || introduced.has(message)) return [{ rev, ...event }]
    introduced.add(message)
    return [...introduction(sql, message, cursor, rev), { rev, ...event }]
  })
}

/** A message that is new to the reader comes before its parts, though its last change came after them. */
const introduction = (
  sql: Sql,
  id: string,
  cursor: number,
  rev: number,
): readonly ClientEvent[] => {
  const fresh = sql.all("SELECT 1 FROM messages WHERE id = ? AND place > ?", id, cursor).length > 0
  const event = fresh ? readEntity(sql, "message", id) : undefined
  return event
    ? [{ rev, ...event, message: { ...(event["message"] as object), status: "streaming" } }]
    : []
}

export const refOf = (messageId: string, partId: string): string =>
  JSON.stringify([messageId, partId])
