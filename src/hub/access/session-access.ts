/** Who may reach one session: its owner, ancestors, members and share links, stored in the session's own database. */
import { z } from "zod"
import { readJson } from "../../lib/json.ts"
import { one, type Sql } from "../session/ports.ts"
import { createMembers, type Members } from "./members.ts"
import { LOCAL_OWNER, type Owner, parseOwner, type Target } from "./ownership.ts"
import { type Runner, runnerPrincipal } from "./principal.ts"
import { createShareLinks, type ShareLinks } from "./share-links.ts"

export interface SessionAccess {
  readonly owner: () => Owner
  readonly target: () => Target & { readonly id: string }
  /** The runner of this session. */
  readonly runner: () => Runner
  /** The person who made the session; a child session has the creator of its parent. */
  readonly creator: () => string | undefined
  /** Called once, when the session is made. */
  readonly setOwner: (owner: Owner, ancestors: readonly string[], creator?: string) => void
  readonly members: Members
  readonly shareLinks: ShareLinks
}

const names = z.array(z.string())

/** The session's tables must exist (`createSession` makes them). */
export const createSessionAccess = (sql: Sql, id: string, now: () => number): SessionAccess => {
  const members = createMembers(sql, now)
  const shareLinks = createShareLinks(sql, now)
  const read = (name: string) =>
    one(sql.all<{ value: string }>("SELECT value FROM meta WHERE name = ?", name))?.value
  const write = (name: string, value: string) =>
    sql.run("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", name, value)
  const owner = () => parseOwner(read("owner") ?? "") ?? LOCAL_OWNER
  const ancestors = () => readJson(names, read("ancestors") ?? "[]")
  return {
    owner,
    members,
    shareLinks,
    target: () => ({ id, owner: owner(), ancestors: ancestors(), members: members.of(id) }),
    runner: () => runnerPrincipal(id, owner(), ancestors()),
    creator: () => read("creator"),
    setOwner: (given, parents, creator) => {
      write("owner", given)
      if (creator !== undefined) write("creator", creator)
      write("ancestors", JSON.stringify(parents))
    },
  }
}
