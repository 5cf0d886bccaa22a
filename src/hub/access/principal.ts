/** Who makes a request, after authentication: the operator, a person, a runner, or the holder of a share link. */
import { isIdentifier, LOCAL_OWNER, type Owner, POOL_OWNER, type Role } from "./ownership.ts"
import { allScopes, knownScopes, type Scope } from "./scopes.ts"

interface Authenticated {
  readonly scopes: readonly Scope[]
  /** Milliseconds since the epoch; open connections of this principal must be closed then. */
  readonly expiresAt?: number
}

export interface Operator extends Authenticated {
  readonly kind: "operator"
}

export interface Person extends Authenticated {
  readonly kind: "person"
  /** Absent for an API key that belongs to an org. */
  readonly sub?: string
  readonly org?: string
  readonly name?: string
  readonly email?: string
  /** The prefix of the API key that was used. */
  readonly key?: string
}

export interface Runner extends Authenticated {
  readonly kind: "runner"
  readonly session: string
  readonly owner: Owner
  readonly ancestors: readonly string[]
}

export interface ShareLinkHolder extends Authenticated {
  readonly kind: "share-link"
  readonly session: string
  readonly role: Exclude<Role, "owner">
  readonly link: string
}

export type Principal = Operator | Person | Runner | ShareLinkHolder
export type PrincipalKind = Principal["kind"]

/** The holder of `CLIENT_TOKEN`. */
export const operator: Operator = { kind: "operator", scopes: allScopes }

export const runnerPrincipal = (
  session: string,
  owner: Owner,
  ancestors: readonly string[],
): Runner => ({
  kind: "runner",
  session,
  owner,
  ancestors,
  scopes: ["sessions:write"],
})

export const shareLinkPrincipal = (
  link: string,
  session: string,
  role: Exclude<Role, "owner">,
  expiresAt: number,
): ShareLinkHolder => ({
  kind: "share-link",
  link,
  session,
  role,
  expiresAt,
  scopes: [role === "viewer" ? "sessions:read" : "sessions:write"],
})

const MOST_SHOWN = 200

/** Reads verified claims. `undefined` when `sub` or `org` is not usable: a guess would give access to the wrong person. */
export const personFromClaims = (claims: Readonly<Record<string, unknown>>): Person | undefined => {
  const { sub, org, exp } = claims
  if (typeof sub !== "string" || !isIdentifier(sub)) return undefined
  if (org !== undefined && (typeof org !== "string" || !isIdentifier(org))) return undefined
  if (`user:${sub}` === LOCAL_OWNER || `org:${org}` === POOL_OWNER) return undefined
  const name = shown(claims["name"])
  const email = shown(claims["email"])
  return {
    kind: "person",
    sub,
    scopes: scopesOf(claims["scope"]),
    ...(org !== undefined && { org }),
    ...(name !== undefined && { name }),
    ...(email !== undefined && { email }),
    ...(typeof exp === "number" && { expiresAt: exp * 1000 }),
  }
}

/** OAuth writes scopes as one text with spaces; some identity providers write an array. */
const scopesOf = (claim: unknown): readonly Scope[] => {
  if (typeof claim === "string") return knownScopes(claim.split(" "))
  return Array.isArray(claim)
    ? knownScopes(claim.filter((scope): scope is string => typeof scope === "string"))
    : []
}

/** Name and email end up in git commits and the page: control characters and `<>` would forge a git identity. */
const shown = (claim: unknown): string | undefined => {
  if (typeof claim !== "string") return undefined
  const text = claim
    .replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029<>]/gu, "")
    .trim()
    .slice(0, MOST_SHOWN)
  return text === "" ? undefined : text
}

/** How the names of those who use this API key begin. */
export const nameOfKey = (prefix: string): string => `key:${prefix}:`

/** One stable text for logs and the audit log. */
export const nameOf = (principal: Principal): string => {
  switch (principal.kind) {
    case "operator":
      return "operator"
    case "person":
      return principal.key === undefined
        ? `user:${principal.sub ?? ""}`
        : `${nameOfKey(principal.key)}${principal.sub === undefined ? `org:${principal.org ?? ""}` : `user:${principal.sub}`}`
    case "runner":
      return `runner:${principal.session}`
    case "share-link":
      return `share-link:${principal.link}`
  }
}

export const hasExpired = ({ expiresAt }: Principal, now: number): boolean =>
  expiresAt !== undefined && expiresAt <= now
