/** The index of all sessions: owner, parent and the facts of a list. One per deployment; sessions report changes to it. */
import { z } from "zod"
import { parseJson } from "../../lib/json.ts"
import type { ChannelSummary } from "../../wire/clients/conversation.ts"
import type { LiveStatus } from "../../wire/clients/lobby.ts"
import { addColumns } from "../session/add-columns.ts"
import { one, type Sql, type SqlValue } from "../session/ports.ts"
import type { SessionFacts } from "../session/session-facts.ts"
import type { Spent } from "./budgets.ts"
import { type Owner, parseOwner } from "./ownership.ts"

/** What a session reports of itself, and the size of its storage, which its host adds. */
export interface IndexedFacts extends Required<SessionFacts> {
  readonly bytes: number
}

export interface IndexedSession extends Omit<IndexedFacts, "live"> {
  readonly id: string
  readonly owner: Owner
  readonly parent?: string
  readonly createdAt: number
  /** As the session last reported it. */
  readonly live?: LiveStatus
}

export interface SessionQuery {
  readonly owners: readonly Owner[] | "all"
  /** Also sessions that have this person as a member. */
  readonly sub?: string | undefined
  /** A part of the title or the id, without regard to case. */
  readonly search?: string | undefined
  /** The `next` of the page before. */
  readonly cursor?: string | undefined
  readonly limit?: number | undefined
}

export interface SessionIndex {
  /**
   * Adds a session; a child has the owner of its parent. False when the id is taken, by any owner: the caller must then
   * decide on access to that session.
   */
  readonly add: (id: string, owner: Owner, parent?: string) => boolean
  readonly update: (id: string, facts: Partial<IndexedFacts>) => void
  /** The people who see the session in their list, besides its owner. */
  readonly setMembers: (id: string, subs: readonly string[]) => void
  readonly find: (id: string) => IndexedSession | undefined
  /** The parent, its parent, and so on. */
  readonly ancestors: (id: string) => readonly string[]
  /** Last active first. A session that becomes active between two pages may be on both. */
  readonly list: (query: SessionQuery) => {
    readonly sessions: readonly IndexedSession[]
    readonly next?: string
  }
  /** For the limits and the budget of an owner. */
  readonly totals: (owner: Owner) => Spent & { readonly running: number; readonly bytes: number }
}

interface Row {
  id: string
  owner: string
  parent: string | null
  title: string
  status: "running" | "ended"
  created_at: number
  active_at: number
  rev: number
  dollars: number
  tokens: number
  bytes: number
  live: string | null
}

const channelSummary: z.ZodType<ChannelSummary> = z.object({
  key: z.string(),
  title: z.string().exactOptional(),
  status: z.enum(["idle", "working", "waiting", "failed"]),
  working: z.number(),
  queued: z.number(),
  waiting: z.number(),
  updatedAt: z.number(),
  rev: z.number(),
  lastText: z.string().exactOptional(),
})
const liveStatus: z.ZodType<LiveStatus> = z.object({
  connected: z.boolean(),
  working: z.number(),
  queued: z.number(),
  waiting: z.number(),
  channels: z.array(channelSummary),
})

const MOST_LISTED = 200
const DEEPEST = 64

const columns: Readonly<Record<keyof IndexedFacts, string>> = {
  title: "title",
  status: "status",
  activeAt: "active_at",
  rev: "rev",
  dollars: "dollars",
  tokens: "tokens",
  bytes: "bytes",
  live: "live",
}

const statements = [
  `CREATE TABLE IF NOT EXISTS session_index (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, parent TEXT, title TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'ended')), created_at INTEGER NOT NULL,
    active_at INTEGER NOT NULL, rev INTEGER NOT NULL DEFAULT 0, dollars REAL NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0)`,
  "CREATE INDEX IF NOT EXISTS session_index_owner ON session_index (owner, active_at)",
  "CREATE TABLE IF NOT EXISTS session_people (sub TEXT NOT NULL, session TEXT NOT NULL, PRIMARY KEY (sub, session))",
  "CREATE INDEX IF NOT EXISTS session_people_session ON session_people (session)",
]

export const createSessionIndex = (sql: Sql, now: () => number): SessionIndex => {
  for (const statement of statements) sql.run(statement)
  addColumns(sql, [["session_index", "live", "TEXT"]])
  const rowOf = (id: string) => one(sql.all<Row>("SELECT * FROM session_index WHERE id = ?", id))

  const add: SessionIndex["add"] = (id, owner, parent) =>
    sql.transaction(() => {
      if (rowOf(id)) return false
      if (parent !== undefined && rowOf(parent)?.owner !== owner) {
        throw new Error(`The session ${parent} does not belong to ${owner}.`)
      }
      sql.run(
        "INSERT INTO session_index (id, owner, parent, created_at, active_at) VALUES (?, ?, ?, ?, ?)",
        id,
        owner,
        parent ?? null,
        now(),
        now(),
      )
      return true
    })

  const ancestors = (id: string): readonly string[] => {
    const found: string[] = []
    for (let parent = rowOf(id)?.parent; parent && found.length < DEEPEST;) {
      if (found.includes(parent)) break
      found.push(parent)
      parent = rowOf(parent)?.parent
    }
    return found
  }

  return {
    add,
    ancestors,
    update: (id, facts) => {
      for (const [name, column] of Object.entries(columns)) {
        const value = facts[name as keyof IndexedFacts]
        if (value !== undefined) {
          const stored = typeof value === "object" ? JSON.stringify(value) : value
          sql.run(`UPDATE session_index SET ${column} = ? WHERE id = ?`, stored, id)
        }
      }
    },
    setMembers: (id, subs) =>
      sql.transaction(() => {
        sql.run("DELETE FROM session_people WHERE session = ?", id)
        for (const sub of new Set(subs)) {
          sql.run("INSERT INTO session_people (sub, session) VALUES (?, ?)", sub, id)
        }
      }),
    find: (id) => viewOf(rowOf(id))[0],
    list: (query) => {
      const { where, values } = conditionOf(query)
      const most = Math.min(Math.max(1, Math.trunc(query.limit ?? 50) || 1), MOST_LISTED)
      const rows = sql.all<Row>(
        `SELECT * FROM session_index WHERE ${where} ORDER BY active_at DESC, id LIMIT ?`,
        ...values,
        most,
      )
      const last = rows.at(-1)
      return {
        sessions: rows.flatMap(viewOf),
        ...(rows.length === most && last && { next: `${last.active_at}:${last.id}` }),
      }
    },
    totals: (owner) =>
      one(
        sql.all<Spent & { running: number; bytes: number }>(
          `SELECT coalesce(sum(status = 'running'), 0) AS running, coalesce(sum(dollars), 0) AS dollars,
          coalesce(sum(tokens), 0) AS tokens, coalesce(sum(bytes), 0) AS bytes FROM session_index WHERE owner = ?`,
          owner,
        ),
      ) ?? { running: 0, dollars: 0, tokens: 0, bytes: 0 },
  }
}

const conditionOf = ({ owners, sub, search, cursor }: SessionQuery) => {
  const values: SqlValue[] = []
  const conditions: string[] = []
  if (owners !== "all") {
    const own = owners.length === 0 ? "0" : `owner IN (${owners.map(() => "?").join(", ")})`
    values.push(...owners)
    if (sub === undefined) conditions.push(own)
    else {
      conditions.push(`(${own} OR id IN (SELECT session FROM session_people WHERE sub = ?))`)
      values.push(sub)
    }
  }
  if (search !== undefined && search !== "") {
    const pattern = `%${search.slice(0, 200).replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
    conditions.push(String.raw`(title LIKE ? ESCAPE '\' OR id LIKE ? ESCAPE '\')`)
    values.push(pattern, pattern)
  }
  const [, at, id] = /^(\d{1,15}):(.+)$/s.exec(cursor ?? "") ?? []
  if (at !== undefined && id !== undefined) {
    conditions.push("(active_at < ? OR (active_at = ? AND id > ?))")
    values.push(Number(at), Number(at), id)
  }
  return { where: conditions.join(" AND ") || "1", values }
}

/** A row with an owner that cannot be read is left out: no principal could have a role on it. */
const viewOf = (row: Row | undefined): readonly IndexedSession[] => {
  const owner = row && parseOwner(row.owner)
  if (!row || owner === undefined) return []
  // A report in the form of another version is left out until the session reports again.
  const live = liveStatus.safeParse(parseJson(row.live ?? "")).data
  return [
    {
      id: row.id,
      owner,
      ...(row.parent !== null && { parent: row.parent }),
      title: row.title,
      status: row.status,
      createdAt: row.created_at,
      activeAt: row.active_at,
      rev: row.rev,
      dollars: row.dollars,
      tokens: row.tokens,
      bytes: row.bytes,
      ...(live && { live }),
    },
  ]
}
