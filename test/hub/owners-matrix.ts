/** The access matrix at the far end: every caller sends every route and verb to every session, on a real host. */
import { expect, test } from "bun:test"
import { decide } from "../../src/hub/access/may.ts"
import type { Target } from "../../src/hub/access/ownership.ts"
import { operator, type Principal, shareLinkPrincipal } from "../../src/hub/access/principal.ts"
import type { Scope } from "../../src/hub/access/scopes.ts"
import { accessTable, type Action, actions } from "../../src/hub/access/table.ts"
import { person } from "./access/principals.ts"
import { type Answer, type OwnersHost, type OwnersStage, tokenOf } from "./kit/owners.ts"

interface Caller {
  readonly name: string
  readonly principal: Principal | undefined
  /** By the session that the request names: a share link belongs to one session. */
  readonly token: string
}

type Request = readonly [method: string, path: string, body?: object]

/** The request of each action. `session` and `owner` are those of the target. */
const requestOf = (action: Action, session: string, owner: string): Request | undefined => {
  const own = `/sessions/${session}`
  const asked = `?owner=${encodeURIComponent(owner)}`
  const requests: Readonly<Record<string, Request>> = {
    "route:list": ["GET", `/sessions${asked}`],
    "route:search": ["GET", `/search${asked}`],
    "route:login-link": ["POST", `/login-links${asked}`],
    "route:lobby": ["GET", `/lobby/ws${asked}`],
    "route:create": ["POST", `/sessions${asked}`, {}],
    "route:default-model": ["PUT", `/default-model${asked}`, { model: null }],
    "route:update": ["PUT", own, {}],
    "route:snapshot": ["GET", own],
    "route:events": ["GET", `${own}/events`],
    "route:artifact": ["GET", `${own}/artifacts/none`],
    "route:terminate": ["DELETE", own],
    "route:socket-client": ["GET", `${own}/ws?role=client`],
    "route:links": ["POST", `${own}/links`, { to: "vscode" }],
    "route:control-tokens": ["POST", `${own}/control-tokens`],
    "route:members-list": ["GET", `${own}/members`],
    "route:members-set": ["PUT", `${own}/members/new-member`, { role: "viewer" }],
    "route:members-remove": ["DELETE", `${own}/members/not-a-member`],
    "route:share-links-list": ["GET", `${own}/share-links`],
    "route:share-links-create": ["POST", `${own}/share-links`, { role: "viewer" }],
    "route:share-links-revoke": ["DELETE", `${own}/share-links/none`],
    "route:budget-read": ["GET", `${own}/budget`],
    "route:budget-set": ["PUT", `${own}/budget`, {}],
    "route:owner-budget-set": ["PUT", `/owners/${encodeURIComponent(owner)}/budget`, {}],
    "route:keys-list": ["GET", `/keys${asked}`],
    "route:keys-create": ["POST", `/keys${asked}`, { scopes: ["sessions:read"] }],
    "route:keys-revoke": ["DELETE", `/keys/000000000000${asked}`],
    "route:keys-rotate": ["POST", `/keys/rotate${asked}`],
    "route:personas-list": ["GET", `/personas${asked}`],
    "route:personas-put": ["PUT", `/personas/wader${asked}`, { content: "# Wades" }],
    "route:personas-remove": ["DELETE", `/personas/none${asked}`],
    "route:audit": ["GET", `/audit${asked}`],
    "verb:prompt": ["POST", `${own}/prompt`, { content: "hello" }],
    "verb:approve-execution": [
      "POST",
      `${own}/approve-execution`,
      { executionId: "none", approve: true },
    ],
    "verb:answer": ["POST", `${own}/answer`, { id: "none", answer: "x" }],
    "verb:permission": ["POST", `${own}/permission`, { id: "none", reply: "once" }],
    "verb:withdraw": ["POST", `${own}/withdraw`, { id: "none" }],
    "verb:promote": ["POST", `${own}/promote`, { id: "none" }],
    "verb:revert": ["POST", `${own}/revert`, { messageId: "none" }],
    "verb:command": ["POST", `${own}/command`, { command: "help" }],
    "verb:delete-tunnel": ["POST", `${own}/delete-tunnel`, { name: "none" }],
    "verb:config": ["POST", `${own}/config`, { config: {} }],
    "verb:search": ["POST", `${own}/search`, { query: "x" }],
    "verb:rename": ["POST", `${own}/rename`, { title: "x" }],
    "verb:seen": ["POST", `${own}/seen`, { rev: 1, channel: "web:none" }],
    "verb:forget": ["POST", `${own}/forget`, { id: "none" }],
    "verb:open": ["POST", `${own}/open`, { what: "vscode" }],
    "verb:history": ["POST", `${own}/history`, { before: 1 }],
  }
  const [kind, name] = action.split(":", 2)
  return requests[action] ?? (kind === "verb" ? ["POST", `${own}/${name}`, {}] : undefined)
}

/** Actions without a request of their own: what decides there is tested in other tests. */
const elsewhere: readonly Action[] = [
  "route:health",
  "route:hook",
  "route:chat",
  "route:fleet",
  "route:socket-runner",
  "route:create-named",
]

/** Actions that end the session. The others are about a running one, so these come last, in this order. */
const ENDING: readonly Action[] = ["verb:end", "route:terminate"]

/** What the answer says about access: `allowed`, or the status of the refusal. */
const verdictOf = ({ status, body }: Answer): "allowed" | number => {
  const { message = "" } = (body["error"] ?? {}) as { readonly message?: string }
  if (status === 401 || status === 403) return status
  const hidden = /^session .* does not exist$|^the owner or the route does not exist$/.test(message)
  return status === 404 && hidden ? 404 : "allowed"
}

export const testMatrix = (host: () => OwnersHost, stage: OwnersStage): void => {
  const shared = async (owner: string) => {
    const { id } = await stage.session(owner)
    for (const [sub, role] of [
      ["vera", "viewer"],
      ["ed", "editor"],
      ["olga", "owner"],
    ] as const) {
      const path = `/sessions/${id}/members/${sub}`
      await stage.call(host().clientToken, "PUT", path, { role })
    }
    return {
      id,
      owner: owner as Target["owner"],
      ancestors: [],
      members: [
        { sub: "vera", role: "viewer" },
        { sub: "ed", role: "editor" },
        { sub: "olga", role: "owner" },
        { sub: "new-member", role: "viewer" },
      ],
    } as const satisfies Target
  }
  const linkTo = async (session: string, role: "viewer" | "editor"): Promise<Caller> => {
    const path = `/sessions/${session}/share-links`
    const { body } = await stage.call(host().clientToken, "POST", path, { role })
    const principal = shareLinkPrincipal("x", session, role, Date.now() + 60_000)
    return { name: `${role} link`, principal, token: String(body["token"]) }
  }
  const jwt = async (sub: string, scopes?: readonly Scope[], org?: string): Promise<Caller> => ({
    name: `${sub} ${scopes?.join("+") ?? "all scopes"}`,
    principal: person(sub, scopes, org),
    token: await tokenOf(sub, {
      ...(scopes && { scope: scopes.join(" ") }),
      ...(org !== undefined && { org }),
    }),
  })
  const callersOf = async (runnerToken: string): Promise<readonly Caller[]> => [
    { name: "operator", principal: operator, token: host().clientToken },
    await jwt("alice"),
    await jwt("alice", ["sessions:read"]),
    await jwt("alice", ["sessions:write"]),
    await jwt("alice", []),
    await jwt("vera"),
    await jwt("ed"),
    await jwt("olga"),
    await jwt("mallory"),
    await jwt("otto", ["sessions:write", "keys", "audit"], "acme"),
    await jwt("ada", undefined, "acme"),
    { name: "no token", principal: undefined, token: "" },
    { name: "a wrong token", principal: undefined, token: "wrong-token-of-the-tests" },
    { name: "a runner's token", principal: undefined, token: runnerToken },
  ]
  const sent = actions
    .filter((action) => /^(route|verb):/.test(action) && !elsewhere.includes(action))
    .toSorted((a, b) => ENDING.indexOf(a) - ENDING.indexOf(b))

  for (const owner of ["user:alice", "user:bob", "org:acme"]) {
    test(`every caller may do over HTTP exactly what the table allows on a session of ${owner}`, async () => {
      const { runnerToken } = await stage.session("user:alice")
      // Many prompts of one owner within a minute are a part of this test, not of the limits.
      const path = `/owners/${encodeURIComponent(owner)}/budget`
      await stage.call(host().clientToken, "PUT", path, { promptsPerMinute: 1000, sessions: 1000 })
      const wrong: string[] = []
      const check = async (caller: Caller, target: Target & { id: string }, action: Action) => {
        const request = requestOf(action, target.id, target.owner)
        if (!request) throw new Error(`${action} has no request in this test`)
        const linkOnOwnerRoute =
          caller.principal?.kind === "share-link" && !request[1].startsWith("/sessions/")
        const decision = decide(caller.principal, action, target)
        const expected = linkOnOwnerRoute ? 401 : decision.ok ? "allowed" : decision.status
        const [method, address, body] = request
        // Setting an owner's budget must not bring the limits back.
        const given = action === "route:owner-budget-set" ? { promptsPerMinute: 1000 } : body
        const verdict = verdictOf(await stage.call(caller.token, method, address, given))
        if (verdict !== expected) {
          wrong.push(`${caller.name} ${action}: ${verdict}, the table says ${expected}`)
        }
      }
      for (const caller of await callersOf(runnerToken)) {
        const target = await shared(owner)
        for (const action of sent) await check(caller, target, action)
      }
      const target = await shared(owner)
      for (const role of ["viewer", "editor"] as const) {
        const caller = await linkTo(target.id, role)
        for (const action of sent) await check(caller, target, action)
      }
      expect(wrong).toEqual([])
    })
  }

  test("every verb over a WebSocket is refused exactly where the table refuses it", async () => {
    const target = await shared("user:alice")
    const wrong: string[] = []
    for (const caller of [
      await jwt("alice"),
      await jwt("vera"),
      await jwt("ed"),
      await linkTo(target.id, "viewer"),
      await linkTo(target.id, "editor"),
    ]) {
      const client = await stage.client(caller.token, target.id)
      for (const action of sent.filter((one) => one.startsWith("verb:"))) {
        if (action === "verb:subscribe") continue
        const [, , body = {}] = requestOf(action, target.id, target.owner) ?? []
        const reply = await client.ask({ ...body, type: action.slice("verb:".length) })
        const { code } = (reply["error"] ?? {}) as { readonly code?: string }
        const allowed = decide(caller.principal, action, target).ok
        if ((code !== "forbidden") !== allowed) wrong.push(`${caller.name} ${action} ${code}`)
      }
    }
    expect(wrong).toEqual([])
  })

  test("every row of the table about routes and verbs is in the matrix or named as tested elsewhere", () => {
    const rows = Object.keys(accessTable).filter((action) => /^(route|verb):/.test(action))
    expect(sent.length + elsewhere.length).toBe(rows.length)
  })

  test("a person who puts a session with a taken name and one with a free name gets the same answer", async () => {
    const taken = await stage.session("user:bob")
    const alice = await tokenOf("alice")
    const onTaken = await stage.call(alice, "PUT", `/sessions/${taken.id}`, {})
    const onFree = await stage.call(alice, "PUT", "/sessions/free-name", {})
    expect(onTaken.status).toBe(404)
    expect(onFree.status).toBe(404)
    const textOf = (answer: Answer, id: string) => JSON.stringify(answer.body).replace(id, "ID")
    expect(textOf(onTaken, taken.id)).toBe(textOf(onFree, "free-name"))
  })
}
