/** Principals and targets that several tests of access use. */
import type { Target } from "../../../src/hub/access/ownership.ts"
import {
  operator,
  type Person,
  type Principal,
  runnerPrincipal,
  shareLinkPrincipal,
} from "../../../src/hub/access/principal.ts"
import { allScopes, type Scope } from "../../../src/hub/access/scopes.ts"

export const person = (
  sub: string | undefined,
  scopes: readonly Scope[] = allScopes,
  org?: string,
): Person => ({
  kind: "person",
  scopes,
  ...(sub !== undefined && { sub }),
  ...(org !== undefined && { org }),
})

/** A tree of sessions: `root` has the children `child` and `sibling`, and `child` has `grandchild`. */
export const sessions = {
  root: { id: "root", owner: "user:alice", ancestors: [] },
  child: { id: "child", owner: "user:alice", ancestors: ["root"] },
  sibling: { id: "sibling", owner: "user:alice", ancestors: ["root"] },
  grandchild: { id: "grandchild", owner: "user:alice", ancestors: ["child", "root"] },
  shared: {
    id: "shared",
    owner: "user:alice",
    members: [
      { sub: "vera", role: "viewer" },
      { sub: "ed", role: "editor" },
      { sub: "olga", role: "owner" },
    ],
  },
  org: { id: "org", owner: "org:acme" },
  foreign: { id: "foreign", owner: "user:bob" },
  /** A row that claims an ancestor of another owner. */
  grafted: { id: "grafted", owner: "user:bob", ancestors: ["child", "root"] },
  store: { owner: "user:alice" },
  foreignStore: { owner: "user:bob" },
  orgStore: { owner: "org:acme" },
} as const satisfies Readonly<Record<string, Target>>

export const callers = {
  operator,
  owner: person("alice"),
  viewer: person("vera"),
  editor: person("ed"),
  coOwner: person("olga"),
  stranger: person("mallory"),
  orgMember: person("otto", ["sessions:write", "keys", "audit", "act-as"], "acme"),
  orgAdmin: person("ada", allScopes, "acme"),
  orgKey: person(undefined, ["sessions:write"], "acme"),
  runner: runnerPrincipal("child", "user:alice", ["root"]),
  viewerLink: shareLinkPrincipal("link1", "shared", "viewer", 10),
  editorLink: shareLinkPrincipal("link2", "shared", "editor", 10),
} as const satisfies Readonly<Record<string, Principal>>
