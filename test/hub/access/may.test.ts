/** The access table and the decision over it: a matrix from the table, a written-out expectation, and properties. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  actionOfRoute,
  decide,
  may,
  mayGrant,
  sessionOfRequest,
} from "../../../src/hub/access/may.ts"
import { type Role, roles, type Target } from "../../../src/hub/access/ownership.ts"
import type { Principal } from "../../../src/hub/access/principal.ts"
import { allScopes, hasScope, scopes } from "../../../src/hub/access/scopes.ts"
import { accessTable, type Action, actions, type Rule } from "../../../src/hub/access/table.ts"
import { routeOf } from "../../../src/hub/session/routes.ts"
import { callers, person, sessions } from "./principals.ts"

const seed = Date.now() % 2 ** 31
const actionOf = fc.constantFrom(...actions)

/** The role of each caller on each target, written out: the matrix must not compute it with the code under test. */
const expectedRoles: Readonly<
  Record<keyof typeof callers, Readonly<Partial<Record<keyof typeof sessions, Role>>>>
> = {
  operator: Object.fromEntries(Object.keys(sessions).map((name) => [name, "owner"])),
  owner: {
    root: "owner",
    child: "owner",
    sibling: "owner",
    grandchild: "owner",
    shared: "owner",
    store: "owner",
  },
  viewer: { shared: "viewer" },
  editor: { shared: "editor" },
  coOwner: { shared: "owner" },
  stranger: {},
  orgMember: { org: "editor", orgStore: "editor" },
  orgAdmin: { org: "owner", orgStore: "owner" },
  orgKey: { org: "editor", orgStore: "editor" },
  runner: { root: "editor", child: "editor", grandchild: "owner", store: "editor" },
  viewerLink: { shared: "viewer" },
  editorLink: { shared: "editor" },
}

const allowedByTable = (principal: Principal, action: Action, role: Role | undefined): boolean => {
  const rule = accessTable[action]
  if (rule.guard === "open") return true
  if (rule.guard === "hook-secret" || role === undefined) return false
  return (
    rule.kinds.includes(principal.kind) &&
    roles.indexOf(role) >= roles.indexOf(rule.role) &&
    hasScope(principal.scopes, rule.scope)
  )
}

describe("the access matrix", () => {
  for (const [callerName, principal] of Object.entries(callers)) {
    for (const [targetName, target] of Object.entries(sessions)) {
      test(`the ${callerName} may do on ${targetName} exactly what the table allows`, () => {
        const named = expectedRoles[callerName as keyof typeof callers]
        for (const action of actions) {
          const rule = accessTable[action]
          const onOwner = rule.guard === "principal" && rule.on === "owner"
          const onSession = rule.guard === "principal" && rule.on !== "owner"
          const asOwner = storeOf(target)
          const role =
            onSession && (!("id" in target) || isForeignToRunner(rule, principal, target))
              ? undefined
              : named[onOwner ? asOwner : (targetName as keyof typeof sessions)]
          const expected = allowedByTable(principal, action, role)
          expect(`${action} ${may(principal, action, target)}`).toBe(`${action} ${expected}`)
        }
      })
    }
  }

  test("a caller without a principal reaches nothing but the health check", () => {
    for (const target of [...Object.values(sessions), undefined]) {
      expect(actions.filter((action) => may(undefined, action, target))).toEqual(["route:health"])
    }
  })
})

/** A row about the runner's own session is for that runner only. */
const isForeignToRunner = (rule: Rule, principal: Principal, { id }: Target): boolean =>
  rule.guard === "principal" &&
  rule.on === "own-session" &&
  !(principal.kind === "runner" && principal.session === id)

const storeOf = ({ owner }: Target): "store" | "foreignStore" | "orgStore" => {
  if (owner === "user:alice") return "store"
  return owner === "user:bob" ? "foreignStore" : "orgStore"
}

describe("the roles", () => {
  const allowed = (principal: Principal, prefix: string, target: Target) =>
    actions
      .filter((action) => action.startsWith(prefix) && may(principal, action, target))
      .map((action) => action.slice(prefix.length))
      .toSorted()

  const reading = ["diff", "history", "search", "subscribe"]
  const writing = [
    "abort",
    "answer",
    "command",
    "delete-tunnel",
    "new-session",
    "approve-execution",
    "permission",
    "promote",
    "rename",
    "seen",
    "prompt",
    "revert",
    "review",
    "withdraw",
  ]

  test("a viewer may use exactly the verbs that read", () => {
    expect(allowed(callers.viewer, "verb:", sessions.shared)).toEqual(reading)
    expect(allowed(callers.viewerLink, "verb:", sessions.shared)).toEqual(reading)
  })
  test("an editor may use every verb except config, end and those of the owner's shared store; a link opens no sandbox", () => {
    const expected = [...reading, ...writing, "open"].toSorted()
    expect(allowed(callers.editor, "verb:", sessions.shared)).toEqual(expected)
    expect(allowed(callers.editorLink, "verb:", sessions.shared)).toEqual(
      [...reading, ...writing].toSorted(),
    )
    expect(allowed(callers.orgMember, "verb:", sessions.org)).toEqual(expected)
  })
  test("an owner may use every verb", () => {
    const own = ["config", "end", "tasks", "memories", "forget"]
    const expected = [...reading, ...writing, "open", ...own].toSorted()
    expect(allowed(callers.owner, "verb:", sessions.shared)).toEqual(expected)
    expect(allowed(callers.coOwner, "verb:", sessions.shared)).toEqual(expected)
    expect(allowed(callers.orgAdmin, "verb:", sessions.org)).toEqual(expected)
  })
  test("a share link opens no route that shares, ends or lists", () => {
    expect(allowed(callers.editorLink, "route:", sessions.shared)).toEqual([
      "artifact",
      "events",
      "health",
      "snapshot",
      "socket-client",
    ])
  })
  test("only an owner may end, update and share a session", () => {
    const ownerOnly = [
      "route:terminate",
      "route:update",
      "route:members-set",
      "route:share-links-create",
    ] as const
    for (const action of ownerOnly) {
      expect(may(callers.owner, action, sessions.shared)).toBeTrue()
      expect(may(callers.editor, action, sessions.shared)).toBeFalse()
      expect(may(callers.viewer, action, sessions.shared)).toBeFalse()
      expect(may(callers.orgMember, action, sessions.org)).toBeFalse()
    }
  })
  test("a co-owner of one session reads neither the keys nor the audit log of its owner", () => {
    expect(may(callers.coOwner, "route:keys-list", sessions.shared)).toBeFalse()
    expect(may(callers.coOwner, "route:audit", sessions.shared)).toBeFalse()
    expect(may(callers.coOwner, "route:create", sessions.shared)).toBeFalse()
  })
})

describe("a runner", () => {
  const { runner } = callers

  test("a runner reads and prompts its own session, its ancestors and its descendants", () => {
    for (const target of [sessions.child, sessions.root, sessions.grandchild]) {
      expect(may(runner, "request:session-messages", target)).toBeTrue()
      expect(may(runner, "request:session-message", target)).toBeTrue()
    }
  })
  test("a runner gets 404 for a sibling, a foreign session and a foreign session that claims its tree", () => {
    for (const target of [sessions.sibling, sessions.foreign, sessions.grafted]) {
      for (const action of actions.filter((name) => name.startsWith("request:"))) {
        const rule = accessTable[action]
        if (rule.guard === "principal" && rule.on !== "owner") {
          expect(decide(runner, action, target)).toMatchObject({ ok: false, status: 404 })
        }
      }
    }
  })
  test("a runner gets 404 for the shared store of another owner", () => {
    expect(decide(runner, "request:memory-read", sessions.foreignStore)).toMatchObject({
      status: 404,
    })
    expect(may(runner, "request:memory-read", sessions.store)).toBeTrue()
  })
  test("a runner ends descendants only", () => {
    expect(may(runner, "request:terminate-child", sessions.grandchild)).toBeTrue()
    expect(may(runner, "request:terminate-child", sessions.child)).toBeFalse()
    expect(may(runner, "request:terminate-child", sessions.root)).toBeFalse()
  })
  test("a runner uses no verb and no route but its own socket", () => {
    for (const target of Object.values(sessions)) {
      const found = actions.filter(
        (action) => /^(route|verb|event):/.test(action) && may(runner, action, target),
      )
      expect(found).toEqual(
        "id" in target && target.id === "child"
          ? ["route:health", "route:socket-runner"]
          : ["route:health"],
      )
    }
  })
  test("the session of a request is the one it names, or the runner's own", () => {
    const common = { requestId: "r1" }
    expect(
      sessionOfRequest({ ...common, type: "get-session-status", targetSessionId: "t" }, "own"),
    ).toBe("t")
    expect(
      sessionOfRequest({ ...common, type: "terminate-child", childSessionId: "c" }, "own"),
    ).toBe("c")
    expect(sessionOfRequest({ ...common, type: "task-list" }, "own")).toBe("own")
  })
})

describe("a refusal", () => {
  test("a caller without a role gets 404, so the name is not confirmed", () => {
    expect(decide(callers.stranger, "route:snapshot", sessions.shared)).toMatchObject({
      status: 404,
    })
    expect(decide(callers.stranger, "route:snapshot", undefined)).toEqual(
      decide(callers.stranger, "route:snapshot", sessions.shared),
    )
  })
  test("a caller that can see the session gets 403 and the reason", () => {
    expect(decide(callers.viewer, "verb:prompt", sessions.shared)).toEqual({
      ok: false,
      status: 403,
      message: "This needs the role editor; the caller is viewer.",
    })
    expect(
      decide(person("alice", ["sessions:read"]), "verb:prompt", sessions.shared),
    ).toMatchObject({
      status: 403,
      message: "This needs the scope sessions:write, which the caller's token does not have.",
    })
  })
  test("a caller without a token gets 401", () => {
    expect(decide(undefined, "route:list", sessions.store)).toMatchObject({ status: 401 })
  })
  test("an action that the table lacks is refused for everybody", () => {
    for (const name of ["verb:nothing", "constructor", "__proto__", "toString", ""]) {
      expect(may(callers.operator, name as Action, sessions.root)).toBeFalse()
    }
  })
  test("a hook is refused for every principal, because its secret decides", () => {
    for (const principal of Object.values(callers)) {
      expect(may(principal, "route:hook", sessions.store)).toBeFalse()
    }
  })
})

describe("routes as actions", () => {
  const action = (method: string, path: string, role: string | null = null, exists = true) => {
    const route = routeOf(method, path, role)
    return route && actionOfRoute(route, exists)
  }
  test("every route of the session agent has an action", () => {
    expect(action("GET", "/health")).toBe("route:health")
    expect(action("GET", "/sessions")).toBe("route:list")
    expect(action("POST", "/sessions")).toBe("route:create")
    expect(action("PUT", "/sessions/s", null, false)).toBe("route:create-named")
    expect(action("PUT", "/sessions/s")).toBe("route:update")
    expect(action("GET", "/sessions/s")).toBe("route:snapshot")
    expect(action("DELETE", "/sessions/s")).toBe("route:terminate")
    expect(action("GET", "/sessions/s/events")).toBe("route:events")
    expect(action("GET", "/sessions/s/ws", "runner")).toBe("route:socket-runner")
    expect(action("GET", "/sessions/s/ws", "client")).toBe("route:socket-client")
    expect(action("GET", "/sessions/s/artifacts/a")).toBe("route:artifact")
    expect(action("POST", "/hooks/t")).toBe("route:hook")
    expect(action("POST", "/sessions/s/prompt")).toBe("verb:prompt")
  })
  test("a verb that does not exist has no action", () => {
    expect(action("POST", "/sessions/s/nothing")).toBeUndefined()
    expect(action("POST", "/sessions/s/constructor")).toBeUndefined()
  })
})

describe("the rules of access", () => {
  const sub = fc.constantFrom("alice", "bob", "vera", "ed")
  const org = fc.constantFrom("acme", "bobco")
  const anyScopes = fc.subarray([...allScopes])
  const anyPerson = fc
    .tuple(sub, anyScopes, fc.option(org, { nil: undefined }))
    .map(([who, held, member]) => person(who, held, member))
  const anyTarget: fc.Arbitrary<Target> = fc.record({
    id: fc.constantFrom("s1", "s2"),
    owner: fc.oneof(
      sub.map((who) => `user:${who}` as const),
      org.map((id) => `org:${id}` as const),
    ),
    members: fc.array(fc.record({ sub, role: fc.constantFrom(...roles) }), { maxLength: 3 }),
  })

  test(`a person without a tie to a session reaches nothing in it (seed ${seed})`, () => {
    fc.assert(
      fc.property(anyPerson, anyTarget, actionOf, (principal, target, action) => {
        fc.pre(
          target.owner !== `user:${principal.sub}` &&
            target.owner !== `org:${principal.org}` &&
            !target.members?.some((member) => member.sub === principal.sub),
        )
        return may(principal, action, target) === (action === "route:health")
      }),
      { numRuns: 2000, seed },
    )
  })
  test(`dropping a scope never allows more (seed ${seed})`, () => {
    fc.assert(
      fc.property(
        anyPerson,
        anyTarget,
        actionOf,
        fc.constantFrom(...allScopes),
        (principal, target, action, dropped) => {
          const less = {
            ...principal,
            scopes: principal.scopes.filter((scope) => scope !== dropped),
          }
          return !may(less, action, target) || may(principal, action, target)
        },
      ),
      { numRuns: 2000, seed },
    )
  })
  test(`a person without scopes reaches nothing (seed ${seed})`, () => {
    fc.assert(
      fc.property(
        anyPerson,
        anyTarget,
        actionOf,
        (principal, target, action) =>
          may({ ...principal, scopes: [] }, action, target) === (action === "route:health"),
      ),
      { numRuns: 1000, seed },
    )
  })
  test(`a runner of another owner reaches nothing, wherever its tree points (seed ${seed})`, () => {
    fc.assert(
      fc.property(anyTarget, actionOf, fc.subarray(["s1", "s2"]), (target, action, ancestors) => {
        const foreign: Principal = {
          ...callers.runner,
          owner: "user:mallory",
          session: "s1",
          ancestors,
        }
        return may(foreign, action, { ...target, ancestors }) === (action === "route:health")
      }),
      { numRuns: 1000, seed },
    )
  })
  test("a principal grants only scopes that it holds", () => {
    const writer = person("alice", ["sessions:write", "keys"])
    expect(mayGrant(writer, ["sessions:read"])).toBeTrue()
    expect(mayGrant(writer, ["sessions:write", "keys"])).toBeTrue()
    expect(mayGrant(writer, ["sessions:admin"])).toBeFalse()
    expect(mayGrant(writer, ["act-as"])).toBeFalse()
    expect(mayGrant(callers.operator, allScopes)).toBeTrue()
  })
  test("every scope is used by the table or by the author rule", () => {
    const used = Object.values(accessTable).flatMap((rule) =>
      rule.guard === "principal" ? [rule.scope as string] : [],
    )
    expect(scopes.map(({ name }) => name).filter((name) => !used.includes(name))).toEqual([
      "act-as",
    ])
  })
})
