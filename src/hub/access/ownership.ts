/** Owners of sessions and the roles people have in them. An owner is a person (`user:<sub>`) or an org (`org:<id>`). */
import type { Principal } from "./principal.ts"
import { hasScope } from "./scopes.ts"

export type Owner = `user:${string}` | `org:${string}`

/** From least to most: each role includes the ones before it. */
export const roles = ["viewer", "editor", "owner"] as const
export type Role = (typeof roles)[number]

/** What `may` decides about: a session, or (without `id`) the things that belong to an owner as a whole. */
export interface Target {
  readonly owner: Owner
  readonly id?: string
  readonly members?: readonly Member[]
  /** The ids of the parent session, its parent, and so on. */
  readonly ancestors?: readonly string[]
}

export interface Member {
  readonly sub: string
  readonly role: Role
}

/**
 * Owns the sessions of sandboxes that were started ahead. No person can have this org, so such a session is reachable for
 * the operator only until it is handed over to its owner.
 */
export const POOL_OWNER: Owner = "org:sandpiper-pool"

/** The owner of `sandpiper up`, and of what the operator makes without naming another. No token of a person can name it. */
export const LOCAL_OWNER: Owner = "user:local"

/** Only printable text without spaces at the ends: a name with hidden characters could pass for another one. */
const ID = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/

export const isIdentifier = (text: string): boolean => ID.test(text)

/** The first colon divides kind and id, so an id may contain colons. */
export const parseOwner = (text: string): Owner | undefined => {
  const [, kind, id] = /^(user|org):(.*)$/s.exec(text) ?? []
  if (kind === undefined || id === undefined || !isIdentifier(id)) return undefined
  return kind === "user" ? `user:${id}` : `org:${id}`
}

export const isRole = (text: string): text is Role => (roles as readonly string[]).includes(text)

export const includesRole = (held: Role, needed: Role): boolean =>
  roles.indexOf(held) >= roles.indexOf(needed)

/** The highest role that the principal has on the target, or `undefined` when it has none. */
export const roleOn = (principal: Principal, target: Target): Role | undefined => {
  switch (principal.kind) {
    case "operator":
      return "owner"
    case "person":
      return highest([
        principal.sub !== undefined && target.owner === `user:${principal.sub}`
          ? "owner"
          : undefined,
        principal.org !== undefined && target.owner === `org:${principal.org}`
          ? orgRole(principal)
          : undefined,
        target.members?.find(({ sub }) => sub === principal.sub)?.role,
      ])
    case "share-link":
      return target.id === principal.session ? principal.role : undefined
    case "runner":
      return runnerRole(principal, target)
  }
}

const orgRole = ({ scopes }: Principal): Role =>
  hasScope(scopes, "sessions:admin") ? "owner" : "editor"

/**
 * A runner works for its owner in its own session, its ancestors and its descendants; it may end descendants only.
 * The owner as a whole (the shared store) is reachable too. A sibling session is not.
 */
const runnerRole = (
  { session, owner, ancestors }: Extract<Principal, { kind: "runner" }>,
  target: Target,
): Role | undefined => {
  if (target.owner !== owner) return undefined
  if (target.id === undefined || target.id === session) return "editor"
  if (target.ancestors?.includes(session)) return "owner"
  return ancestors.includes(target.id) ? "editor" : undefined
}

const highest = (found: readonly (Role | undefined)[]): Role | undefined =>
  roles.findLast((role) => found.includes(role))

/** The owners whose sessions a principal may list; sessions shared with it by membership are extra. */
export const ownersOf = (principal: Principal): readonly Owner[] | "all" => {
  switch (principal.kind) {
    case "operator":
      return "all"
    case "person":
      return [
        ...(principal.sub === undefined ? [] : [`user:${principal.sub}` as const]),
        ...(principal.org === undefined ? [] : [`org:${principal.org}` as const]),
      ]
    case "runner":
    case "share-link":
      return []
  }
}
