/**
 * The change log: every change that clients see has a number, `rev`. Live events and replays are read from the same rows,
 * so a client that was away sends its last `rev` and gets only what it missed.
 */
import type { z } from "zod"
import type { NumberedEvent } from "../../wire/clients/conversation.ts"
import type { Sockets, Sql } from "./ports.ts"
import { readEntity } from "./client-views.ts"
import { changeRow, hasRow, readRow, readRows, revRow } from "./rows.ts"

export type ChangeKind = z.output<typeof changeRow>["kind"]

export interface Changes {
  /** Records that an entity changed; clients get it after the commit. */
  readonly record: (kind: Exclude<ChangeKind, "delta">, ref: string) => number
  /** Records that a part's text grew from `start` on. Not broadcast: clients got the deltas when they arrived. */
  readonly recordGrowth: (messageId: string, partId: string, start: number) => void
  /** Records that a part's text grew from `start` on; clients get the growth after the commit. */
  readonly recordOutput: (messageId: string, partId: string, start: number) => void
  /** After the commit: sends clients what was recorded since the last call, and returns its kinds. */
  readonly broadcast: () => ReadonlySet<ChangeKind>
  /** After a rollback: forgets what was recorded. */
  readonly rollBack: () => void
  readonly rev: () => number
  /** The changes after `cursor`; `undefined` when the log cannot tell and a snapshot is needed. */
  readonly since: (cursor: number) => readonly NumberedEvent[] | undefined
}

interface Recorded {
  readonly rev: number
  readonly kind: ChangeKind
  readonly ref: string
  readonly start?: number
}

export const createChanges = (sql: Sql, sockets: Sockets): Changes => {
  let recorded: Recorded[] = []
  let newestRev: number | undefined
  const insert = (kind: ChangeKind, ref: string, start: number | null): number => {
    const row = readRow(
      sql,
      revRow,
      "INSERT OR REPLACE INTO changes (kind, ref, start) VALUES (?, ?, ?) RETURNING rev",
      kind,
      ref,
      start,
    )
    newestRev = row?.rev ?? 0
    return newestRev
  }
  const rev = () => (newestRev ??= readNewestRev(sql))
  return {
    record: (kind, ref) => {
      const added = { rev: insert(kind, ref, null), kind, ref }
      recorded = [...recorded.filter((other) => other.kind !== kind || other.ref !== ref), added]
      return added.rev
    },
    recordGrowth: (messageId, partId, start) =>
      void insert("delta", refOfPart(messageId, partId), start),
    recordOutput: (messageId, partId, start) => {
      const ref = refOfPart(messageId, partId)
      recorded.push({ rev: insert("delta", ref, start), kind: "delta", ref, start })
    },
    broadcast: () => {
      const changes = recorded
      recorded = []
      for (const change of changes) {
        const event = readEntity(sql, change.kind, change.ref, change.start)
        if (event) sockets.broadcast(JSON.stringify({ rev: change.rev, ...event }))
      }
      return new Set(changes.map(({ kind }) => kind))
    },
    rollBack: () => {
      recorded = []
      newestRev = undefined
    },
    rev,
    since: (cursor) => (cursor > rev() ? undefined : readChangesSince(sql, cursor)),
  }
}

const readNewestRev = (sql: Sql): number =>
  readRow(sql, revRow, "SELECT max(rev) AS rev FROM changes")?.rev ?? 0

/** A longer replay costs more than a snapshot. */
const MAX_REPLAYED = 2000

const readChangesSince = (sql: Sql, cursor: number): readonly NumberedEvent[] | undefined => {
  const rows = readRows(
    sql,
    changeRow,
    "SELECT rev, kind, ref, start FROM changes WHERE rev > ? ORDER BY rev LIMIT ?",
    cursor,
    MAX_REPLAYED + 1,
  )
  if (rows.length > MAX_REPLAYED) return undefined
  const wholeParts = new Set(rows.flatMap(({ kind, ref }) => (kind === "part" ? [ref] : [])))
  const replayedDeltas = new Set<string>()
  const introduced = new Set<string>()
  return rows.flatMap(({ rev, kind, ref, start }): NumberedEvent[] => {
    if (kind === "delta" && (wholeParts.has(ref) || replayedDeltas.has(ref))) return []
    // One event covers every missed delta of a part: from the start of the first one to the end of the text.
    if (kind === "delta") replayedDeltas.add(ref)
    if (kind === "message") introduced.add(ref)
    const event = readEntity(sql, kind, ref, start ?? 0)
    if (!event) return []
    if (event.type !== "part" && event.type !== "part.delta") return [{ rev, ...event }]
    if (introduced.has(event.messageId)) return [{ rev, ...event }]
    introduced.add(event.messageId)
    return [...introduceMessage(sql, event.messageId, cursor, rev), { rev, ...event }]
  })
}

/** A message that is new to the client must come before its parts, although its newest change may come after them. */
const introduceMessage = (
  sql: Sql,
  id: string,
  cursor: number,
  rev: number,
): readonly NumberedEvent[] => {
  const isNew = hasRow(sql, "SELECT 1 FROM messages WHERE id = ? AND place > ?", id, cursor)
  const event = isNew ? readEntity(sql, "message", id) : undefined
  return event?.type === "message"
    ? [{ rev, type: "message", message: { ...event.message, status: "streaming" } }]
    : []
}

export const refOfPart = (messageId: string, partId: string): string =>
  JSON.stringify([messageId, partId])
