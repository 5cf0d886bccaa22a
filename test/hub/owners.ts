/**
 * Owners and access on a host: the matrix, and each attack with its effect at the far end. All tests share one start of the host; each
 * has sessions of its own, and owners of its own where it changes or counts what belongs to an owner.
 */
import { jwtVerify } from "jose"
import { isControlClaims } from "../../src/runner/gateway/control-claims.ts"
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { createAuth } from "../../src/runner/gateway/auth.ts"
import { parseTarget } from "../../src/runner/gateway/http/target.ts"
import { createStage, type OwnersHost, refusalOf, tokenOf } from "./kit/owners.ts"
import { untilEqual, untilFound, untilState, untilTrue } from "../kit/until-true.ts"
import { testMatrix } from "./owners-matrix.ts"
import { testRunnerMatrix } from "./runner-matrix.ts"

export const testOwners = (name: string, start: () => Promise<OwnersHost>): void => {
  let host: OwnersHost
  const stage = createStage(() => host)
  const { call, session, runner, client } = stage

  describe(name, () => {
    beforeAll(async () => {
      host = await start()
    })
    afterEach(() => stage.end())
    afterAll(() => host.stop())

    testMatrix(() => host, stage)
    testRunnerMatrix(stage)

    test("a runner of one owner gets for another owner's session what it gets for a missing one", async () => {
      const alice = await session("user:alice")
      const bob = await session("user:bob")
      const person = await tokenOf("alice")
      await call(person, "POST", `/sessions/${alice.id}/prompt`, { content: "a secret plan" })
      const { request } = runner(bob).uplink
      for (const type of [
        "get-session-status",
        "session-messages",
        "forward-messages",
        "session-message",
      ] as const) {
        const ask = (targetSessionId: string) =>
          refusalOf(request(type, { targetSessionId, content: "run this" }))
        expect(await ask(alice.id)).toBe(`there is no session ${alice.id}`)
        expect(await ask("missing")).toBe("there is no session missing")
      }
      const { body } = await call(person, "GET", `/sessions/${alice.id}`)
      expect(JSON.stringify(body)).not.toContain("run this")
    })

    test("a runner reaches its parent and its children, not a sibling", async () => {
      const root = await session("user:alice")
      const left = await session("user:alice", { parent: root.id })
      const right = await session("user:alice", { parent: root.id })
      const child = await session("user:alice", { parent: left.id })
      const { request } = runner(left).uplink
      const status = (targetSessionId: string) => request("get-session-status", { targetSessionId })
      expect(await status(root.id)).toMatchObject({ sessionStatus: { id: root.id } })
      expect(await status(child.id)).toMatchObject({ sessionStatus: { id: child.id } })
      expect(await status(left.id)).toMatchObject({ sessionStatus: { id: left.id } })
      expect(await refusalOf(status(right.id))).toBe(`there is no session ${right.id}`)
    })

    test("a session cannot be made a child of another owner's session", async () => {
      const bob = await session("user:bob")
      const person = await tokenOf("alice")
      const made = await call(person, "POST", "/sessions", { parent: bob.id })
      expect(made.status).toBe(404)
      expect(made.body).toMatchObject({
        error: { message: `session ${bob.id} does not exist` },
      })
    })

    test("each owner has memories, tasks, workflows, triggers and mail of its own", async () => {
      const alice = runner(await session("user:alice")).uplink
      const bobSession = await session("user:bob")
      const bob = runner(bobSession).uplink
      const { memory } = await alice.request("memory-write", {
        content: "the vault opens at noon",
        category: "facts",
      })
      const { task } = await alice.request("task-create", { title: "open the vault" })
      const made = (await alice.request("trigger-api", {
        action: "create",
        payload: { name: "door", config: { type: "webhook", prompt: "ring" } },
      })) as { data: { trigger: { id: string; secret: string; path: string } } }
      const { id, secret, path } = made.data.trigger
      const idOf = (value: unknown) => (value as { readonly id: string }).id

      expect(await bob.request("memory-read", { query: "vault" })).toMatchObject({ memories: [] })
      expect(await refusalOf(bob.request("memory-delete", { memoryId: idOf(memory) }))).toContain(
        "there is no memory",
      )
      expect(await bob.request("task-list", {})).toMatchObject({ tasks: [] })
      expect(
        await refusalOf(bob.request("task-update", { taskId: idOf(task), status: "completed" })),
      ).toContain("there is no task")
      expect(await bob.request("workflow-list", {})).toMatchObject({ workflows: [] })
      expect(await bob.request("trigger-api", { action: "list", payload: {} })).toMatchObject({
        data: { triggers: [] },
      })
      expect(
        await refusalOf(bob.request("trigger-api", { action: "run", payload: { triggerId: id } })),
      ).toContain("there is no trigger")
      expect(
        await refusalOf(
          alice.request("mailbox-send", { toSessionId: bobSession.id, content: "psst" }),
        ),
      ).toBe(`there is no session ${bobSession.id}`)
      expect(
        await refusalOf(alice.request("mailbox-send", { toUserId: "bob", content: "psst" })),
      ).toContain("bob has no session that could read it")
      expect(await bob.request("mailbox-check", {})).toMatchObject({ messages: [] })

      expect(await alice.request("memory-read", { query: "vault" })).toMatchObject({
        memories: [{ content: "the vault opens at noon" }],
      })
      expect((await call(secret, "POST", path, {})).status).toBe(202)
      expect((await call("wrong", "POST", path, {})).status).toBe(401)
    })

    test("a request id that another owner's runner has used names another prompt", async () => {
      const root = await session("user:alice")
      const one = await session("user:alice", { parent: root.id })
      const two = await session("user:alice", { parent: root.id })
      for (const [from, content] of [
        [one, "from one"],
        [two, "from two"],
      ] as const) {
        const socket = runner(from)
        await untilTrue(() => socket.frames.length > 0, "connection")
        socket.send({
          type: "session-message",
          requestId: "chosen-by-the-runner",
          targetSessionId: root.id,
          content,
        })
      }
      const asOperator = () => call(host.clientToken, "GET", `/sessions/${root.id}`)
      const text = await untilState(
        async () => JSON.stringify((await asOperator()).body),
        (shown) => shown.includes("from one") && shown.includes("from two"),
        "prompts of both runners",
      )
      expect(text).toContain("from one")
      expect(text).toContain("from two")
    })

    /** Both kinds of connections with a session: a WebSocket and a stream of server-sent events. */
    const subscribe = async (token: string, id: string) => {
      const socket = await client(token, id)
      const response = await fetch(`${host.url}/sessions/${id}/events`, {
        headers: { Authorization: `Bearer ${token}` },
      })
      expect(response.status).toBe(200)
      let streamed: string | undefined
      void response.text().then((text) => (streamed = text))
      return {
        /** Resolves when both have ended, to all that they have received. */
        ended: async () => {
          const text = await untilFound(() => streamed, "end of the stream")
          await untilTrue(() => !socket.isOpen(), "end of the connection")
          return text + JSON.stringify(socket.events)
        },
        isOpen: () => socket.isOpen() && streamed === undefined,
      }
    }

    /** Asks something of the session as its owner, and returns what was asked. */
    const askAsOwner = async (token: string, id: string) => {
      const content = `only for the owner ${crypto.randomUUID()}`
      const asked = await call(token, "POST", `/sessions/${id}/prompt`, { content })
      expect(asked.status).toBe(200)
      return content
    }

    test("in an organization the mail of a user is read by the sessions that this user made", async () => {
      const org = `mail-${crypto.randomUUID()}`
      const of = async (sub: string) => {
        const token = await tokenOf(sub, { org })
        const runnerToken = `runner-token-${crypto.randomUUID()}`
        const path = `/sessions?owner=${encodeURIComponent(`org:${org}`)}`
        const { body } = await call(token, "POST", path, { runnerToken })
        return runner({ id: String(body["session"]), runnerToken }).uplink
      }
      const [ann, anns, ben] = [await of("ann"), await of("ann"), await of("ben")]
      await ben.request("mailbox-send", { toUserId: "ann", content: "for Ann" })
      const read = async (uplink: typeof ann) =>
        (await uplink.request("mailbox-check", {})).messages
      expect(await read(ann)).toMatchObject([{ content: "for Ann", toUserId: "ann" }])
      expect(await read(anns)).toMatchObject([{ content: "for Ann" }])
      expect(await read(await of("ben"))).toEqual([])
    })

    test("the operator's token of the git host serves no other owner", async () => {
      const { request } = runner(await session("user:alice")).uplink
      expect(await refusalOf(request("list-repos", {}))).toContain(
        "no git host is set up for the owner",
      )
      expect(await refusalOf(request("spawn-child", { task: "t", workspace: "w" }))).toMatch(
        /operator only|cannot start sandboxes/,
      )
    })

    test("a member that is removed while it is subscribed receives nothing that happens after the removal", async () => {
      const made = await session("user:alice")
      const { id } = made
      runner(made)
      const alice = await tokenOf("alice")
      await call(alice, "PUT", `/sessions/${id}/members/vera`, { role: "viewer" })
      const vera = await tokenOf("vera")
      const subscribed = await subscribe(vera, id)
      const before = await askAsOwner(alice, id)
      await call(alice, "DELETE", `/sessions/${id}/members/vera`)
      const after = await askAsOwner(alice, id)
      const received = await subscribed.ended()
      expect(received).toContain(before)
      expect(received).not.toContain(after)
      expect((await call(vera, "GET", `/sessions/${id}`)).status).toBe(404)
    })

    test("a share link opens one session with its role until it is revoked", async () => {
      const { id } = await session("user:alice")
      const other = await session("user:alice")
      const alice = await tokenOf("alice")
      const { body } = await call(alice, "POST", `/sessions/${id}/share-links`, { role: "viewer" })
      const link = String(body["token"])
      const linkId = (body["link"] as { readonly id: string }).id
      expect((await call(link, "GET", `/sessions/${id}`)).status).toBe(200)
      expect((await call(link, "POST", `/sessions/${id}/prompt`, { content: "x" })).status).toBe(
        403,
      )
      expect((await call(link, "GET", `/sessions/${other.id}`)).status).toBe(401)
      const subscribed = await subscribe(link, id)
      await call(alice, "DELETE", `/sessions/${id}/share-links/${linkId}`)
      const after = await askAsOwner(alice, id)
      expect(await subscribed.ended()).not.toContain(after)
      expect((await call(link, "GET", `/sessions/${id}`)).status).toBe(401)
    })

    test("a token of another issuer, audience, key or algorithm, or an expired one, opens nothing", async () => {
      const { id } = await session("user:alice")
      const [head = "", claims = ""] = (await tokenOf("alice")).split(".")
      const none = `${btoa('{"alg":"none"}').replaceAll("=", "")}.${claims}.`
      for (const token of [
        await tokenOf("alice", { iss: "https://other.test" }),
        await tokenOf("alice", { aud: "other" }),
        await tokenOf("alice", { secret: "another-secret-with-more-than-32-bytes-in-it" }),
        await tokenOf("alice", { seconds: -60 }),
        none,
        `${head}.${claims}.`,
      ]) {
        expect((await call(token, "GET", `/sessions/${id}`)).status).toBe(401)
      }
      expect((await call(await tokenOf("alice"), "GET", `/sessions/${id}`)).status).toBe(200)
    })

    /** Connections with a token that expires soon. A machine that is too slow for it gets a longer one. */
    const subscribeBriefly = async (id: string) => {
      for (let seconds = 2; ; seconds *= 2) {
        const expiresAt = (Math.floor(Date.now() / 1000) + seconds) * 1000
        const token = await tokenOf("alice", { expiresAt })
        const subscribed = await subscribe(token, id).catch(() => undefined)
        if (subscribed?.isOpen() && Date.now() < expiresAt) return { subscribed, expiresAt }
        expect(Date.now()).toBeGreaterThanOrEqual(expiresAt)
      }
    }

    test("a connection is closed when its token expires", async () => {
      const { id } = await session("user:alice")
      const { subscribed, expiresAt } = await subscribeBriefly(id)
      const received = await subscribed.ended()
      expect(Date.now()).toBeGreaterThanOrEqual(expiresAt)
      expect(received).toContain("snapshot")
    })

    test("an API key acts for its owner until it is revoked, and cannot grant more than it has", async () => {
      const { id } = await session("user:alice")
      const alice = await tokenOf("alice", { scope: "sessions:write keys" })
      const tooMuch = await call(alice, "POST", "/keys", { scopes: ["audit"] })
      expect(tooMuch.status).toBe(403)
      const made = await call(alice, "POST", "/keys", { scopes: ["sessions:read"], name: "ci" })
      const key = String(made.body["key"])
      const { prefix } = made.body["row"] as { readonly prefix: string }
      expect((await call(key, "GET", `/sessions/${id}`)).status).toBe(200)
      expect((await call(key, "POST", `/sessions/${id}/prompt`, { content: "x" })).status).toBe(403)
      const listed = JSON.stringify((await call(alice, "GET", "/keys")).body)
      expect(listed).toContain(prefix)
      expect(listed).toContain("lastUsedAt")
      expect(listed).not.toContain(key)
      const subscribed = await subscribe(key, id)
      expect((await call(await tokenOf("bob"), "DELETE", `/keys/${prefix}`)).status).toBe(404)
      expect((await call(alice, "DELETE", `/keys/${prefix}`)).status).toBe(200)
      const after = await askAsOwner(alice, id)
      expect(await subscribed.ended()).not.toContain(after)
      expect((await call(key, "GET", `/sessions/${id}`)).status).toBe(401)
    })

    test("the author and git identity of a prompt come from the principal", async () => {
      const made = await session("user:alice")
      const path = `/sessions/${made.id}/prompt`
      const forged = {
        authorId: "user:boss",
        authorName: "Boss",
        authorEmail: "boss@x.test",
        gitName: "Boss",
        gitEmail: "boss@x.test",
      }
      const alice = await tokenOf("alice", {
        scope: "sessions:write",
        name: "Alice A",
        email: "alice@x.test",
      })
      const at = runner(made)
      await call(alice, "POST", path, { content: "as alice", ...forged })
      await untilTrue(() => at.prompts.length === 1, "prompt")
      expect(at.prompts[0]).toMatchObject({
        authorId: "user:alice",
        authorName: "Alice A",
        gitName: "Alice A",
        gitEmail: "alice@x.test",
      })
      expect(JSON.stringify(at.prompts)).not.toContain("boss")
      await call(host.clientToken, "POST", path, { content: "for the boss", ...forged })
      await untilTrue(() => at.prompts.length === 2, "prompt")
      expect(at.prompts[1]).toMatchObject(forged)
    })

    test("an API key that expires makes keys and links that end with it, and its revocation ends them", async () => {
      const owner = `user:expiring-${crypto.randomUUID()}`
      const { id } = await session(owner)
      const expiresAt = Date.now() + 3_600_000
      const keyOf = (body: Record<string, unknown>) =>
        body as { key: string; row: { prefix: string; expiresAt?: number } }
      const scopes = ["keys", "sessions:admin"]
      const made = await call(host.clientToken, "POST", `/keys?owner=${owner}`, {
        scopes,
        expiresAt,
      })
      const first = keyOf(made.body)
      const later = await call(first.key, "POST", "/keys", { scopes, expiresAt: expiresAt + 1 })
      expect(later.status).toBe(403)
      const second = keyOf((await call(first.key, "POST", "/keys", { scopes })).body)
      expect(second.row.expiresAt).toBe(expiresAt)
      const third = keyOf((await call(second.key, "POST", "/keys", { scopes })).body)
      const shared = await call(third.key, "POST", `/sessions/${id}/share-links`, {
        role: "viewer",
        lifetimeSeconds: 86_400,
      })
      const { token, link } = shared.body as { token: string; link: { expiresAt: number } }
      expect(link.expiresAt).toBeLessThanOrEqual(expiresAt)
      const read = (secret: string) => call(secret, "GET", `/sessions/${id}`)
      for (const secret of [second.key, third.key, token])
        expect((await read(secret)).status).toBe(200)
      expect(
        (await call(host.clientToken, "DELETE", `/keys/${first.row.prefix}?owner=${owner}`)).status,
      ).toBe(200)
      for (const secret of [first.key, second.key, third.key, token])
        expect((await read(secret)).status).toBe(401)
    })

    test("files of the host hold no provider key, API key, share link, runner token or webhook secret, and the runner gets the key", async () => {
      const providerKey = `sk-provider-${crypto.randomUUID()}`
      const later = `sk-later-${crypto.randomUUID()}`
      const made = await session("user:alice", {
        config: { providerKeys: { openai: providerKey } },
      })
      const path = `/sessions/${made.id}`
      const changed = await call(host.clientToken, "POST", `${path}/config`, {
        config: { providerKeys: { anthropic: later, openai: providerKey } },
      })
      expect(changed.status).toBe(200)
      const key = await call(host.clientToken, "POST", "/keys?owner=user:alice", {
        scopes: ["sessions:read"],
      })
      const link = await call(host.clientToken, "POST", `${path}/share-links`, { role: "viewer" })
      const webhook = await webhookOf(made)
      const snapshot = JSON.stringify((await call(host.clientToken, "GET", path)).body)
      const secrets = [
        providerKey,
        later,
        made.runnerToken,
        String(key.body["key"]),
        String(link.body["token"]),
        webhook.secret,
        webhook.chosen,
      ]
      for (const secret of secrets) {
        expect(snapshot).not.toContain(secret)
        expect(filesWith(host.folder, secret)).toEqual([])
      }
      // The search finds what is there: the id of the session.
      expect(filesWith(host.folder, made.id).length).toBeGreaterThan(0)
      await host.restart()
      const at = runner(made)
      await untilTrue(() => at.frames.some(({ type }) => type === "opencode-config"), "config")
      expect(at.frames.find(({ type }) => type === "opencode-config")).toMatchObject({
        config: { providerKeys: { anthropic: later, openai: providerKey } },
      })
      expect((await call(host.clientToken, "POST", "/keys/rotate")).status).toBe(200)
      expect(filesWith(host.folder, providerKey)).toEqual([])
    })

    const webhookOf = async (made: { readonly id: string; readonly runnerToken: string }) => {
      const { request, stop } = runner(made).uplink
      const create = async (config: object) => {
        const payload = { name: "door", config: { type: "webhook", prompt: "ring", ...config } }
        const { data } = await request("trigger-api", { action: "create", payload })
        return (data as { trigger: { id: string; secret: string; path: string } }).trigger
      }
      const { secret, path } = await create({})
      const chosen = `whsec-${crypto.randomUUID()}`
      const second = await create({ secret: chosen })
      expect((await call(secret, "POST", path, {})).status).toBe(202)
      expect((await call(chosen, "POST", second.path, {})).status).toBe(202)
      expect((await call(chosen, "POST", path, {})).status).toBe(401)
      await stop(2000)
      return { secret, chosen }
    }

    test("a link to the gateway opens its path once, for the person that made it", async () => {
      const made = await session("user:alice")
      const alice = await tokenOf("alice")
      const ask = (to: string) => call(alice, "POST", `/sessions/${made.id}/links`, { to })
      expect((await ask("vscode")).status).toBe(503)
      const at = runner(made, { gatewayUrl: "https://box.test:9000" })
      await untilTrue(() => at.frames.length > 0, "connection")
      expect((await ask("nowhere")).status).toBe(400)
      expect(await ask("tunnel:web")).toMatchObject({
        status: 404,
        body: { error: { message: "tunnel web does not exist" } },
      })
      at.send({ type: "tunnels", tunnels: [{ name: "web", port: 3000, path: "/t/web/" }] })
      await untilTrue(async () => (await ask("tunnel:web")).status === 201, "the tunnel")
      const { status, body } = await ask("tunnel:web")
      expect(status).toBe(201)
      const { pathname, search, origin } = new URL(String(body["url"]))
      expect(`${origin}${pathname}`).toBe("https://box.test:9000/t/web/")
      const opened: string[] = []
      const auth = createAuth({
        sessionId: made.id,
        jwtSecret: made.gatewayKey,
        apiToken: "api-token",
        now: Date.now,
        onOpened: (sub, path) => void opened.push(`${sub} ${path}`),
      })
      const open = async (path: string) => {
        const head = { method: "GET", target: `${path}${search}`, headers: [], version: "1.1" }
        const grant = await auth.guards.person(
          head as unknown as Parameters<typeof auth.guards.person>[0],
          parseTarget(head.target),
          "192.0.2.1",
        )
        return typeof grant === "string" ? grant : grant.session.scope
      }
      expect(await open("/vscode/")).toBe("invalid")
      expect(await open("/t/web/")).toBe("/t/web/")
      expect(await open("/t/web/")).toBe("invalid")
      expect(opened).toEqual(["user:alice /t/web/"])
    })

    test("a link to a service that is off is refused with what switches it on", async () => {
      const made = await session("user:alice")
      const alice = await tokenOf("alice")
      const at = runner(made, { gatewayUrl: "https://box.test:9000" })
      await untilTrue(() => at.frames.length > 0, "connection")
      at.send({ type: "services", vscode: "off", vnc: "starting", terminal: "ready" })
      const ask = (to: string) => call(alice, "POST", `/sessions/${made.id}/links`, { to })
      await untilTrue(async () => (await ask("vscode")).status !== 201, "the services")
      expect(await ask("vscode")).toMatchObject({
        status: 409,
        body: {
          error: {
            message:
              "vscode is off in this sandbox: start the runner with SANDPIPER_SERVICES=vscode",
          },
        },
      })
      expect(
        await call(alice, "POST", `/sessions/${made.id}/open`, { what: "vscode" }),
      ).toMatchObject({ status: 409 })
      expect((await ask("vnc")).status).toBe(201)
      expect((await ask("terminal")).status).toBe(201)
    })

    test("the owner of a session gets a control token that the gateway accepts for five minutes, an editor gets none", async () => {
      const made = await session("user:alice")
      const [alice, bob] = [await tokenOf("alice"), await tokenOf("bob")]
      const path = `/sessions/${made.id}/control-tokens`
      expect((await call(alice, "POST", path)).status).toBe(503)
      const at = runner(made, { gatewayUrl: "https://box.test:9000" })
      await untilTrue(() => at.frames.length > 0, "connection")
      const member = await call(alice, "PUT", `/sessions/${made.id}/members/bob`, {
        role: "editor",
      })
      expect(member.status).toBe(200)
      expect((await call(bob, "POST", path)).status).toBe(403)
      const { status, body } = await call(alice, "POST", path)
      expect({ status, url: body["url"] }).toEqual({ status: 201, url: "https://box.test:9000" })
      const now = Date.now()
      expect(Number(body["expiresAt"])).toBeLessThanOrEqual(now + 300_000)
      const { payload } = await jwtVerify(
        String(body["token"]),
        new TextEncoder().encode(made.gatewayKey),
      )
      expect(isControlClaims(payload, made.id, now)).toBe(true)
    })

    test("at 100 % of the budget the turn ends with that reason, the queue waits, and a raised budget lets it go on", async () => {
      const owner = `user:budget-${crypto.randomUUID()}`
      const made = await session(owner)
      const token = await tokenOf(owner.slice(5))
      const path = `/sessions/${made.id}`
      expect((await call(token, "PUT", `${path}/budget`, { tokens: 100 })).status).toBe(200)
      const watcher = await client(token, made.id)
      const at = runner(made, { eager: false, answer: () => ["one ", "two"] })
      const first = await watcher.ask({ type: "prompt", content: "first" })
      const second = await watcher.ask({ type: "prompt", content: "second" })
      await untilTrue(() => at.busy() === 1, "turn")
      const use = (input: number) =>
        at.send({
          type: "usage",
          turnId: "t",
          model: "m",
          input,
          output: 0,
          reasoning: 0,
          cacheRead: 0,
          cacheWrite: 0,
        })
      use(85)
      await watcher.until(() => stateOf(watcher.state("budget")) === "warn", "warning")
      use(15)
      await watcher.until(() => stateOf(watcher.state("budget")) === "stop", "stop")
      await watcher.until(
        () =>
          watcher
            .messages()
            .some(
              ({ promptId, error = "" }) =>
                promptId === first["messageId"] && error.includes("budget is used up"),
            ),
        "end of the turn with its reason",
      )
      // What the end of the turn causes comes before the replies to later requests.
      await at.uplink.request("task-list", {})
      await watcher.ask({ type: "history", before: 1, limit: 1 })
      expect(at.prompts.map(({ messageId }) => messageId)).toEqual([String(first["messageId"])])
      expect(watcher.queue().map(({ id, status }) => [id, status])).toEqual([
        [String(second["messageId"]), "queued"],
      ])
      await call(token, "PUT", `${path}/budget`, { tokens: 1000 })
      await untilTrue(() => at.prompts.length === 2, "second prompt")
    })

    test("an owner's budget counts all its sessions", async () => {
      const owner = `user:purse-${crypto.randomUUID()}`
      const address = `/owners/${encodeURIComponent(owner)}/budget`
      expect((await call(host.clientToken, "PUT", address, { tokens: 50 })).status).toBe(200)
      const [one, two] = [await session(owner), await session(owner)]
      const spender = runner(one)
      await untilTrue(() => spender.frames.length > 0, "connection")
      spender.send({
        type: "usage",
        turnId: "t",
        model: "m",
        input: 60,
        output: 0,
        reasoning: 0,
        cacheRead: 0,
        cacheWrite: 0,
      })
      const token = await tokenOf(owner.slice(5))
      const spent = async () => {
        const { body } = await call(token, "GET", "/sessions")
        const rows = body["sessions"] as { readonly tokens: number }[]
        return rows.reduce((sum, { tokens }) => sum + tokens, 0)
      }
      await untilEqual(spent, 60, "the tokens in the list")
      const other = runner(two)
      await call(token, "POST", `/sessions/${two.id}/prompt`, { content: "me too" })
      // The runner has answered the barrier of the connection: from then on prompts are dispatched.
      await untilTrue(() => other.frames.some(({ type }) => type === "abort"), "barrier")
      await other.uplink.request("task-list", {})
      expect(other.prompts).toEqual([])
      await call(host.clientToken, "PUT", address, { tokens: 5000 })
      await untilTrue(() => other.prompts.length === 1, "prompt after the budget was raised")
    })

    test("limits per owner answer 429 with a sentence and a time to wait", async () => {
      const owner = `user:limits-${crypto.randomUUID()}`
      const token = await tokenOf(owner.slice(5))
      const address = `/owners/${encodeURIComponent(owner)}/budget`
      const limits = { promptsPerMinute: 2, sessions: 2, bytes: 1_000_000 }
      await call(host.clientToken, "PUT", address, limits)
      const first = await call(token, "POST", "/sessions", {})
      expect(first.status).toBe(201)
      await call(token, "POST", "/sessions", {})
      const third = await call(token, "POST", "/sessions", {})
      expect(third.status).toBe(429)
      expect(Number(third.headers.get("retry-after"))).toBeGreaterThan(0)
      expect(JSON.stringify(third.body)).toContain("limit of 2 sessions")
      const path = `/sessions/${String(first.body["session"])}/prompt`
      const big = `data:text/plain;base64,${"A".repeat(1_000_000)}`
      const attachments = [{ type: "file", mime: "text/plain", url: big }]
      const stored = await call(token, "POST", path, { content: "x", attachments })
      expect(stored.status).toBe(429)
      expect(JSON.stringify(stored.body)).toContain("stored bytes")
      const answers = [1, 2, 3].map(() => call(token, "POST", path, { content: "x" }))
      const statuses = (await Promise.all(answers)).map(({ status }) => status)
      expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, 429])
    })

    test("the audit log says who did what to which session, per owner and without contents", async () => {
      const owner = `user:audit-${crypto.randomUUID()}`
      const token = await tokenOf(owner.slice(5))
      const { id } = await session(owner)
      await call(token, "POST", `/sessions/${id}/prompt`, { content: "hush hush" })
      await call(token, "PUT", `/sessions/${id}/members/vera`, { role: "viewer" })
      const page = await call(token, "GET", "/audit?limit=2")
      const entries = page.body["entries"] as Record<string, unknown>[]
      expect(entries.map(({ who, action, session: about }) => [who, action, about])).toEqual([
        [owner, "route:members-set", id],
        [owner, "verb:prompt", id],
      ])
      const older = await call(token, "GET", `/audit?cursor=${String(page.body["next"])}`)
      expect(older.body["entries"]).toMatchObject([
        { who: "operator", action: "route:create-named", session: id },
      ])
      expect(JSON.stringify([page.body, older.body])).not.toContain("hush")
      const foreign = `/audit?owner=${encodeURIComponent(owner)}`
      expect((await call(await tokenOf("mallory"), "GET", foreign)).status).toBe(404)
    })

    test("a title that a session was given over the API stays when its agent names the conversation", async () => {
      const token = await tokenOf("alice")
      const made = await session("user:alice", { title: "Count the waders" })
      const at = runner(made)
      const view = await client(token, made.id)
      const named = async (title: string) => {
        at.send({ type: "title", title })
        at.send({ type: "tunnels", tunnels: [{ name: title, port: 1, path: "/" }] })
        await view.until(() => JSON.stringify(view.state("tunnels") ?? "").includes(title), title)
      }
      await named("count")
      expect(view.state("title")).toBe("Count the waders")
      await call(token, "PUT", `/sessions/${made.id}`, { title: "Count them all" })
      await named("again")
      expect(view.state("title")).toBe("Count them all")
    })

    test("a parent of a session that exists and an owner in the body of a new one are refused, not ignored", async () => {
      const token = await tokenOf("alice")
      const parent = await session("user:alice")
      const child = await session("user:alice", { parent: parent.id })
      const put = (id: string, body: object) => call(token, "PUT", `/sessions/${id}`, body)
      expect((await put(child.id, { parent: parent.id, title: "the same" })).status).toBe(201)
      const moved = await put(child.id, { parent: child.id, title: "moved" })
      expect(moved.status).toBe(400)
      expect(JSON.stringify(moved.body)).toContain("parent: it is chosen when")
      expect((await put(parent.id, { parent: child.id })).status).toBe(400)
      const { body } = await call(token, "GET", `/sessions/${child.id}`)
      expect(body["state"]).toMatchObject({ title: "the same" })
      const create = (owner: string) => call(token, "POST", "/sessions", { owner })
      expect((await create("user:alice")).status).toBe(201)
      const foreign = await create("user:bob")
      expect(foreign.status).toBe(400)
      expect(JSON.stringify(foreign.body)).toContain("POST /sessions?owner=")
    })

    test("the list shows an owner's sessions with title, status, activity, unread and cost, in pages and by search", async () => {
      const owner = `user:list-${crypto.randomUUID()}`
      const token = await tokenOf(owner.slice(5))
      const made = await session(owner, { title: "Fix the login page" })
      const other = await session(owner, { title: "Paint the shed" })
      await session("user:bob", { title: "Fix the secret page" })
      const at = runner(made)
      await call(token, "POST", `/sessions/${made.id}/prompt`, { content: "hello" })
      await untilTrue(() => at.prompts.length === 1, "prompt")
      at.send({
        type: "usage",
        turnId: "t",
        model: "m",
        input: 5,
        output: 5,
        reasoning: 0,
        cacheRead: 0,
        cacheWrite: 0,
        cost: 0.25,
      })
      const rows = async (query: string) =>
        (await call(token, "GET", `/sessions${query}`)).body["sessions"] as Record<
          string,
          unknown
        >[]
      const found = await untilState(
        () => rows("?search=LOGIN"),
        ([row]) => row?.["unread"] === true && row["tokens"] === 10,
        "unread session with its tokens",
      )
      expect(found).toMatchObject([
        {
          id: made.id,
          owner,
          title: "Fix the login page",
          status: "running",
          unread: true,
          dollars: 0.25,
          tokens: 10,
        },
      ])
      expect(Number(found[0]?.["activeAt"])).toBeGreaterThan(Date.now() - 60_000)
      await call(token, "GET", `/sessions/${made.id}`)
      expect(await rows("?search=login")).toMatchObject([{ unread: false }])
      expect((await rows("")).map(({ id }) => String(id)).toSorted()).toEqual(
        [made.id, other.id].toSorted(),
      )
      const page = await call(token, "GET", "/sessions?limit=1")
      const next = encodeURIComponent(String(page.body["next"]))
      const first = page.body["sessions"] as Record<string, unknown>[]
      const second = await rows(`?limit=1&cursor=${next}`)
      expect([first, second].map((rowsOf) => String(rowsOf[0]?.["id"])).toSorted()).toEqual(
        [made.id, other.id].toSorted(),
      )
      expect(await rows("?search=secret")).toEqual([])
      const searched = await call(token, "GET", "/search?q=shed")
      expect(searched.body["sessions"]).toMatchObject([{ id: other.id }])
    })
  })
}

const stateOf = (value: unknown): unknown =>
  (value as { readonly state?: unknown } | undefined)?.state

/** The files below a folder that contain the text, as raw bytes. */
const filesWith = (folder: string, text: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((file) => readIfThere(file).includes(text))

/** A write-ahead log disappears when its database is closed; its content is in the database then. */
const readIfThere = (file: string): Buffer =>
  statSync(file, { throwIfNoEntry: false })?.isFile() && existsSync(file)
    ? readFileSync(file)
    : Buffer.alloc(0)
