/** Scopes limit what a principal may do beyond its role. A principal without a scope gets nothing from it. */

export const scopes = [
  { name: "sessions:read", doc: "read sessions, their events and artifacts" },
  { name: "sessions:write", doc: "create and prompt sessions; includes `sessions:read`" },
  {
    name: "sessions:admin",
    doc: "share, configure and end sessions; makes an org member an owner; includes `sessions:write`",
  },
  { name: "keys", doc: "create, list and revoke API keys" },
  { name: "audit", doc: "read the audit log" },
  { name: "metrics", doc: "read counters and readiness of the deployment, for all owners" },
  { name: "act-as", doc: "name another person as the author of a prompt" },
] as const

export type Scope = (typeof scopes)[number]["name"]

const names: ReadonlySet<string> = new Set(scopes.map(({ name }) => name))

export const allScopes: readonly Scope[] = scopes.map(({ name }) => name)

const isScope = (text: string): text is Scope => names.has(text)

/** Unknown names are dropped: an identity provider puts its own scopes (`openid`, `email`) into the same claim. */
export const knownScopes = (given: readonly string[]): readonly Scope[] => [
  ...new Set(given.filter(isScope)),
]

const includedIn: Readonly<Partial<Record<Scope, readonly Scope[]>>> = {
  "sessions:read": ["sessions:write", "sessions:admin"],
  "sessions:write": ["sessions:admin"],
}

export const hasScope = (held: readonly Scope[], needed: Scope): boolean =>
  held.includes(needed) || (includedIn[needed] ?? []).some((scope) => held.includes(scope))
