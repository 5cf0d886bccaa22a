/**
 * What a deployment knows about all its owners: the index of sessions, API keys, the audit log, budgets and limits. One per
 * deployment: a database of the Bun host, one Durable Object on the Workers runtime, where every call is asynchronous.
 */
import { z } from "zod"
import { readJson } from "../../lib/json.ts"
import { one, type Sql } from "../session/ports.ts"
import { type ApiKey, createApiKeys, type NewApiKey } from "./api-keys.ts"
import { type AuditEntry, createAudit } from "./audit.ts"
import { type Account, budgetSchema } from "./budgets.ts"
import {
  type Bucket,
  checkBytes,
  checkSessions,
  defaultLimits,
  type Limited,
  takePrompt,
} from "./limits.ts"
import type { Owner } from "./ownership.ts"
import { nameOf, type Person, type Principal } from "./principal.ts"
import {
  createSessionIndex,
  type IndexedSession,
  type IndexedFacts,
  type SessionQuery,
} from "./session-index.ts"
import type { Action } from "./table.ts"

type Later<T> = T | Promise<T>

/** A missing field means no limit (budget) or the default (limits). */
export const ownerSettings = budgetSchema.extend({
  sessions: z.int().nonnegative().optional(),
  promptsPerMinute: z.int().nonnegative().optional(),
  bytes: z.int().nonnegative().optional(),
})
export type OwnerSettings = Readonly<z.output<typeof ownerSettings>>

export type OwnerAccount = Pick<Account, "budget" | "spent"> & {
  /** The model of prompts that name none. */
  readonly model?: string | undefined
}

export interface ListedSession extends IndexedSession {
  /** A message is newer than the last time that this reader read the session. */
  readonly unread: boolean
}

export type AddedSession =
  | { readonly ok: true; readonly ancestors: readonly string[] }
  | Exclude<Limited, { readonly ok: true }>
  /** The id exists, with any owner. */
  | { readonly ok: false; readonly taken: true }
  /** The parent does not exist or belongs to another owner. */
  | { readonly ok: false; readonly noParent: true }

export interface NewAuditEntry {
  readonly owner: Owner
  readonly principal: Principal
  readonly action: Action
  readonly session?: string | undefined
  readonly from?: string | undefined
}

export interface Directory {
  readonly verifyKey: (key: string) => Later<Person | null>
  readonly createKey: (input: NewApiKey) => Later<{ readonly key: string; readonly row: ApiKey }>
  readonly listKeys: (owner: Owner) => Later<readonly ApiKey[]>
  /** The prefixes of the keys that were revoked: the given one and those made with it. */
  readonly revokeKey: (owner: Owner, prefix: string) => Later<readonly string[]>
  readonly addSession: (id: string, owner: Owner, parent?: string | null) => Later<AddedSession>
  /** Adds a session that exists already, without regard to limits. */
  readonly adoptSession: (id: string, owner: Owner) => Later<void>
  /** Returns what the owner has spent over all its sessions; `null` for a session that is not in the index. */
  readonly updateSession: (id: string, facts: Partial<IndexedFacts>) => Later<OwnerAccount | null>
  readonly setMembers: (id: string, subs: readonly string[]) => Later<void>
  readonly listSessions: (
    query: SessionQuery,
    reader: string,
  ) => Later<{ readonly sessions: readonly ListedSession[]; readonly next?: string }>
  /** The ids of the owner's sessions and of those that it is a member of; or of all sessions. */
  readonly sessionsOf: (owner: Owner | "all") => Later<readonly string[]>
  readonly markRead: (reader: string, session: string, rev: number) => Later<void>
  /** Takes a prompt out of the owner's allowance; `adding` is the number of bytes that it would store. */
  readonly admitPrompt: (
    owner: Owner,
    adding: number,
  ) => Later<Limited & { readonly account: OwnerAccount }>
  readonly ownerSettings: (owner: Owner) => Later<OwnerSettings>
  readonly setOwnerSettings: (owner: Owner, settings: OwnerSettings) => Later<OwnerAccount>
  /** The model of the owner's prompts that name none; `null` when none is set. */
  readonly ownerModel: (owner: Owner) => Later<string | null>
  readonly setOwnerModel: (owner: Owner, model: string | null) => Later<OwnerAccount>
  readonly appendAudit: (entry: NewAuditEntry) => Later<void>
  readonly listAudit: (
    owner: Owner,
    cursor?: number | null,
    limit?: number | null,
  ) => Later<{ readonly entries: readonly AuditEntry[]; readonly next?: number }>
}

/** People, the operator and share links read under one name each; the API keys of a person share its name. */
export const readerOf = (principal: Principal): string =>
  principal.kind === "person" && principal.sub !== undefined
    ? `user:${principal.sub}`
    : nameOf(principal)

const statements = [
  "CREATE TABLE IF NOT EXISTS owner_settings (owner TEXT PRIMARY KEY, settings TEXT NOT NULL)",
  "CREATE TABLE IF NOT EXISTS owner_models (owner TEXT PRIMARY KEY, model TEXT NOT NULL)",
  `CREATE TABLE IF NOT EXISTS read_marks (
    reader TEXT NOT NULL, session TEXT NOT NULL, rev INTEGER NOT NULL, PRIMARY KEY (reader, session))`,
]

export const createDirectory = (sql: Sql, now: () => number): Directory => {
  for (const statement of statements) sql.run(statement)
  const keys = createApiKeys(sql, now)
  const audit = createAudit(sql, now)
  const index = createSessionIndex(sql, now)
  /** Tokens of the prompt limit. Lost in a restart: an owner then starts with a full minute. */
  const buckets = new Map<Owner, Bucket>()

  const settingsOf = (owner: Owner): OwnerSettings => {
    const row = one(
      sql.all<{ settings: string }>("SELECT settings FROM owner_settings WHERE owner = ?", owner),
    )
    return row ? readJson(ownerSettings, row.settings) : {}
  }
  const limitsOf = (owner: Owner) => {
    const { sessions, promptsPerMinute, bytes } = settingsOf(owner)
    return {
      sessions: sessions ?? defaultLimits.sessions,
      promptsPerMinute: promptsPerMinute ?? defaultLimits.promptsPerMinute,
      bytes: bytes ?? defaultLimits.bytes,
    }
  }
  const modelOf = (owner: Owner): string | undefined =>
    one(sql.all<{ model: string }>("SELECT model FROM owner_models WHERE owner = ?", owner))?.model
  const accountOf = (owner: Owner): OwnerAccount => {
    const { dollars, tokens } = settingsOf(owner)
    const totals = index.totals(owner)
    const model = modelOf(owner)
    return {
      budget: { dollars, tokens },
      spent: { dollars: totals.dollars, tokens: totals.tokens },
      ...(model !== undefined && { model }),
    }
  }
  const marksOf = (reader: string, ids: readonly string[]): ReadonlyMap<string, number> =>
    new Map(
      sql
        .all<{ session: string; rev: number }>(
          "SELECT session, rev FROM read_marks WHERE reader = ? AND session IN (SELECT value FROM json_each(?))",
          reader,
          JSON.stringify(ids),
        )
        .map(({ session, rev }) => [session, rev]),
    )

  return {
    verifyKey: async (key) => (await keys.verify(key)) ?? null,
    createKey: keys.create,
    listKeys: keys.list,
    revokeKey: keys.revoke,
    addSession: (id, owner, parent) => {
      if (index.find(id)) return { ok: false, taken: true }
      if (typeof parent === "string" && index.find(parent)?.owner !== owner)
        return { ok: false, noParent: true }
      const limited = checkSessions(index.totals(owner).running, limitsOf(owner))
      if (!limited.ok) return limited
      index.add(id, owner, parent ?? undefined)
      return { ok: true, ancestors: index.ancestors(id) }
    },
    adoptSession: (id, owner) => void index.add(id, owner),
    updateSession: (id, facts) => {
      const row = index.find(id)
      if (!row) return null
      index.update(id, facts)
      return accountOf(row.owner)
    },
    setMembers: index.setMembers,
    listSessions: (query, reader) => {
      const { sessions, next } = index.list(query)
      const marks = marksOf(
        reader,
        sessions.map(({ id }) => id),
      )
      return {
        sessions: sessions.map((row) => ({ ...row, unread: row.rev > (marks.get(row.id) ?? 0) })),
        ...(next !== undefined && { next }),
      }
    },
    sessionsOf: (owner) =>
      sql
        .all<{ id: string }>(
          `SELECT id FROM session_index WHERE owner = ? OR ? = 'all'
           OR id IN (SELECT session FROM session_people WHERE sub = ?) ORDER BY id`,
          owner,
          owner,
          owner.startsWith("user:") ? owner.slice(5) : "",
        )
        .map(({ id }) => id),
    markRead: (reader, session, rev) =>
      sql.run(
        `INSERT INTO read_marks (reader, session, rev) VALUES (?, ?, ?)
         ON CONFLICT (reader, session) DO UPDATE SET rev = max(rev, excluded.rev)`,
        reader,
        session,
        rev,
      ),
    admitPrompt: (owner, adding) => {
      const limits = limitsOf(owner)
      const account = accountOf(owner)
      const bytes = checkBytes(index.totals(owner).bytes, adding, limits)
      if (!bytes.ok) return { ...bytes, account }
      const { bucket, ...taken } = takePrompt(buckets.get(owner), limits, now())
      buckets.set(owner, bucket)
      return { ...taken, account }
    },
    ownerSettings: settingsOf,
    setOwnerSettings: (owner, settings) => {
      sql.run(
        "INSERT OR REPLACE INTO owner_settings (owner, settings) VALUES (?, ?)",
        owner,
        JSON.stringify(settings),
      )
      return accountOf(owner)
    },
    ownerModel: (owner) => modelOf(owner) ?? null,
    setOwnerModel: (owner, model) => {
      if (model === null) sql.run("DELETE FROM owner_models WHERE owner = ?", owner)
      else sql.run("INSERT OR REPLACE INTO owner_models (owner, model) VALUES (?, ?)", owner, model)
      return accountOf(owner)
    },
    appendAudit: audit.append,
    listAudit: (owner, cursor, limit) => audit.list(owner, cursor ?? undefined, limit ?? undefined),
  }
}
