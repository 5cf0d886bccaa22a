/**
 * The fleet's HTTP API with a real hub; its sandboxes are runners without an agent in this process. The tests share one hub and one
 * fleet; each has its own owners, threads, chats and keys. The tests of counters and of the log share another one, whose calls they know.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SignJWT } from "jose"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { fleetRoutes, matchRoute, type RouteName } from "../../src/fleet/core/routes.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { recordingLog } from "../kit/log.ts"
import { untilTrue } from "../kit/until-true.ts"
import { runnerProvider, type RunnerProvider } from "./kit/runner-provider.ts"
import { externalSession, startStack } from "./kit/stack.ts"

const JWT_SECRET = "a secret for the tokens of people"
const QUOTA = 8
const CREATES = 12
const folder = mkdtempSync(join(tmpdir(), "fleet-api-"))
const store = openSqliteStore(":memory:")
let provider: RunnerProvider
let stack: ServeStack
let alice = ""
let bob = ""

const tokenOf = (sub: string, scope = "sessions:admin") =>
  new SignJWT({ scope })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject(sub)
    .setExpirationTime("1h")
    .sign(new TextEncoder().encode(JWT_SECRET))

beforeAll(async () => {
  provider = runnerProvider()
  stack = await startStack(folder, {
    provider,
    store,
    lifeMs: 10_800_000,
    quotas: { running: QUOTA, createsPerHour: CREATES },
    whisperVolume: "whisper-models",
    hub: { jwt: { secret: JWT_SECRET }, environment: { WORKSPACE_SYNC: "1" } },
  })
  alice = await tokenOf("alice")
  bob = await tokenOf("bob")
})
afterAll(async () => {
  await provider.stop()
  await stack.stop()
  rmSync(folder, { recursive: true, force: true })
})

interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly headers: Headers
}

const callsTo =
  (called: () => ServeStack) =>
  async (
    method: string,
    path: string,
    body?: object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer> => {
    const response = await fetch(`${called().hub.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${CLIENT_TOKEN}`, ...headers },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return {
      status: response.status,
      body: text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : { text },
      headers: response.headers,
    }
  }
const call = callsTo(() => stack)
const as = (token: string) => ({ authorization: `Bearer ${token}` })

describe("who may call", () => {
  const pathOf = (name: RouteName, session: string) =>
    fleetRoutes[name].path
      .replace(":session", session)
      .replace(":chat", "no-chat")
      .replace(":thread", "no-thread")

  test("every route refuses a request without a token and one with a wrong token", async () => {
    for (const name of Object.keys(fleetRoutes) as RouteName[]) {
      const { method } = fleetRoutes[name]
      for (const headers of [{ authorization: "" }, as("wrong")]) {
        const { status, body } = await call(method, pathOf(name, "s"), undefined, headers)
        expect(`${name}: ${status} ${String(body["code"])}`).toBe(`${name}: 401 unauthorized`)
      }
    }
  })

  test("for a person the routes of the operator and the sessions of another owner do not exist", async () => {
    const { body } = await call("POST", "/api/threads/T:1/resolve", undefined, as(alice))
    const session = String(body["sessionId"])
    for (const name of Object.keys(fleetRoutes) as RouteName[]) {
      const { method, access } = fleetRoutes[name]
      if (access === "service" || access === "observe") continue
      const { status } = await call(method, pathOf(name, session), undefined, as(bob))
      expect(`${name}: ${status}`).toBe(`${name}: 404`)
    }
    expect((await call("GET", `/api/sandbox/${session}/status`, undefined, as(alice))).status).toBe(
      200,
    )
    expect((await call("GET", `/api/sandbox/none/status`, undefined, as(bob))).body["error"]).toBe(
      "there is no session none",
    )
  })

  test("the scopes of a token count", async () => {
    const reader = await tokenOf("alice", "sessions:read")
    const { status } = await call("POST", "/api/threads/T:1/resolve", undefined, as(reader))
    expect(status).toBe(403)
  })

  test("an API key of the hub opens the sandboxes of its owner as far as its scopes allow, until it is revoked", async () => {
    const boss = await tokenOf("kim", "sessions:admin keys")
    const keyWith = async (scope: string) => {
      const made = await call("POST", "/keys", { name: scope, scopes: [scope] }, as(boss))
      return { key: String(made.body["key"]), row: made.body["row"] as { readonly prefix: string } }
    }
    const writer = await keyWith("sessions:write")
    const reader = await keyWith("sessions:read")
    const resolve = (token: string) =>
      call("POST", "/api/threads/K:1/resolve?wait=1", undefined, as(token))
    const { status, body } = await resolve(writer.key)
    expect(status).toBe(200)
    const path = `/api/sandbox/${String(body["sessionId"])}`
    expect((await call("GET", `${path}/status`, undefined, as(reader.key))).status).toBe(200)
    expect((await resolve(reader.key)).status).toBe(403)
    expect((await call("POST", `${path}/terminate`, undefined, as(writer.key))).status).toBe(403)
    expect((await call("GET", `${path}/status`, undefined, as(bob))).status).toBe(404)
    expect((await call("GET", "/api/sandboxes", undefined, as(writer.key))).status).toBe(404)
    await call("DELETE", `/keys/${writer.row.prefix}`, undefined, as(boss))
    expect((await resolve(writer.key)).status).toBe(401)
  })

  test("a token that may write sends prompts to a thread and to its session by invoke and resume, one that may read does not", async () => {
    const writer = await tokenOf("pia", "sessions:write")
    const reader = await tokenOf("pia", "sessions:read")
    const sent = await call("POST", "/api/threads/P:1/prompt", { message: "a" }, as(writer))
    const given = {
      sandbox_session_id: sent.body["sessionId"],
      sandbox_mode: "cloud",
      message: "b",
    }
    for (const path of ["/api/agent/invoke", "/api/agent/resume"]) {
      const statusFor = async (token: string) => (await call("POST", path, given, as(token))).status
      expect([path, await statusFor(writer)]).toEqual([path, 200])
      expect([path, await statusFor(reader)]).toEqual([path, 403])
      expect([path, await statusFor(bob)]).toEqual([path, 404])
    }
  })

  test("a token with the scope metrics reads counters and readiness, and nothing else", async () => {
    const boss = await tokenOf("nina", "sessions:admin keys")
    const granted = await call("POST", "/keys", { scopes: ["metrics"] }, as(boss))
    expect(granted.status).toBe(403)
    const made = await call("POST", "/keys?owner=user:prometheus", { scopes: ["metrics"] })
    const watcher = as(String(made.body["key"]))
    for (const path of ["/metrics", "/ready"]) {
      expect((await call("GET", path, undefined, watcher)).status).toBe(200)
      expect((await call("GET", path, undefined, as(boss))).status).toBe(403)
      expect((await call("GET", path, undefined, as(await tokenOf("k8s", "metrics")))).status).toBe(
        200,
      )
    }
    expect((await call("GET", "/api/sandboxes", undefined, watcher)).status).toBe(404)
    expect((await call("POST", "/api/sweep", undefined, watcher)).status).toBe(404)
    expect((await call("POST", "/api/threads/W:1/resolve", undefined, watcher)).status).toBe(403)
  })

  test("a path below the API that no row has is 404 in the form of the API", async () => {
    for (const path of [
      "/api/sandbox/s/fly",
      "/api/threads/x",
      "/api/agent/none",
      "/api/sandboxes/x",
    ]) {
      const { status, body } = await call("POST", path)
      expect(status).toBe(404)
      expect(body).toMatchObject({ code: "not-found", requestId: expect.any(String) })
    }
    expect(matchRoute("GET", "/api/sandbox/by-chat/c1")).toMatchObject({ name: "by-chat" })
    expect(matchRoute("GET", "/api/sandbox/%E0%A4%A/status")).toBeUndefined()
  })
})

describe("chats", () => {
  const prepare = (chatSessionId: string, headers = {}) =>
    call("POST", "/api/marketplace/expert/prepare-invoke", { chatSessionId }, headers)
  const sessionIn = ({ body }: Answer) =>
    (body["data"] as { sandboxSession: Record<string, unknown> }).sandboxSession

  test("prepare-invoke starts the sandbox of a chat once, and by-chat waits until it runs", async () => {
    const first = sessionIn(await prepare("c1"))
    expect(first).toMatchObject({ status: "warm", provider: "noop", isNewProvision: false })
    const again = sessionIn(await prepare("c1"))
    expect(again["id"]).toBe(first["id"])
    const { body } = await call("GET", "/api/sandbox/by-chat/c1?waitSeconds=60")
    expect(body).toMatchObject({ sessionId: first["id"], status: "running", provider: "noop" })
    expect(body["containerUrl"]).toBe(
      `https://${String(body["providerSandboxId"])}.sandboxes.example/t/preview/`,
    )
    expect(provider.specs.filter(({ session }) => session === first["id"])).toHaveLength(1)
    expect((await call("GET", "/api/sandbox/by-chat/unknown")).status).toBe(404)
    expect(provider.specs.find(({ session }) => session === first["id"])?.volumes).toEqual([
      { name: `workspace-${String(first["id"])}`, path: "/workspace" },
      { name: "whisper-models", path: "/models/whisper", readOnly: true },
    ])
  })

  test("above the quota of its owner a chat is refused with a time to wait, and starts when another one sleeps", async () => {
    const dora = { "x-user-id": "dora" }
    const chats = Array.from({ length: QUOTA }, (_, index) => `d${index}`)
    for (const chat of chats) {
      expect((await prepare(chat, dora)).status).toBe(200)
      await call("GET", `/api/sandbox/by-chat/${chat}?waitSeconds=60`, undefined, dora)
    }
    const refused = await prepare("one-more", dora)
    expect(refused).toMatchObject({ status: 429, body: { code: "quota" } })
    expect(refused.headers.get("retry-after")).toBe("30")
    const { body } = await call("GET", "/api/sandbox/by-chat/d0", undefined, dora)
    await call("POST", `/api/sandbox/${String(body["sessionId"])}/pause?wait=1`)
    expect((await prepare("one-more", dora)).status).toBe(200)
  })

  test("an owner that has started as many sandboxes as it may in an hour is told when the next one is allowed", async () => {
    const eve = { "x-user-id": "eve" }
    // Those of the last minutes, which have ended since.
    for (let number = 1; number < CREATES; number += 1) {
      const create = { tenant: "user:eve", session: `e${number}`, generation: 1, at: Date.now() }
      expect(await store.countCreate(create, () => undefined)).toBeUndefined()
    }
    expect((await prepare("the-last-one", eve)).status).toBe(200)
    await call("GET", "/api/sandbox/by-chat/the-last-one?waitSeconds=60", undefined, eve)
    const refused = await prepare("one-too-many", eve)
    expect(refused).toMatchObject({
      status: 429,
      body: {
        code: "quota",
        error: `this owner has started ${CREATES} sandboxes in the last hour, which is the limit: try again later`,
      },
    })
    const wait = Number(refused.headers.get("retry-after"))
    expect(wait).toBeGreaterThan(3000)
    expect(wait).toBeLessThanOrEqual(3600)
    expect((await prepare("of-another", { "x-user-id": "frank" })).status).toBe(200)
  })

  test("the list of sandboxes is read in pages, and a wrong cursor or limit is refused", async () => {
    for (const chat of ["page-1", "page-2", "page-3", "page-4"])
      await prepare(chat, { "x-user-id": "paula" })
    const whole = await call("GET", "/api/sandboxes")
    const ids = (body: Answer["body"]) =>
      (body["sandboxes"] as readonly { readonly sessionId: string }[]).map(
        ({ sessionId }) => sessionId,
      )
    expect(whole.body["next"]).toBeUndefined()
    const found: string[] = []
    let next = ""
    do {
      const { body } = await call("GET", `/api/sandboxes?limit=3${next}`)
      found.push(...ids(body))
      const after = body["next"]
      next = typeof after === "string" ? `&after=${encodeURIComponent(after)}` : ""
    } while (next !== "")
    expect(found).toEqual(ids(whole.body))
    expect(found.length).toBeGreaterThan(3)
    for (const query of ["limit=0", "limit=501", "limit=x", "after=x", "after=1"])
      expect((await call("GET", `/api/sandboxes?${query}`)).body["code"]).toBe("bad-request")
  })

  test("the same chat id of two owners is two sessions", async () => {
    const ofAlice = sessionIn(await prepare("shared", { "x-user-id": "alice" }))["id"]
    const ofBob = sessionIn(await prepare("shared", { "x-user-id": "bob" }))["id"]
    expect(ofAlice).not.toBe(ofBob)
    expect(
      (await call("GET", `/api/sandbox/${String(ofAlice)}/status`, undefined, as(alice))).status,
    ).toBe(200)
    expect(
      (await call("GET", `/api/sandbox/${String(ofAlice)}/status`, undefined, as(bob))).status,
    ).toBe(404)
    // The header counts with the operator's token only.
    const { body } = await call("GET", "/api/sandbox/by-chat/shared", undefined, {
      ...as(bob),
      "x-user-id": "alice",
    })
    expect(body["sessionId"]).toBe(ofBob)
  })

  test("an expert is refused by name of the field, and no sandbox is started for it", async () => {
    const given = { chatSessionId: "c-expert", expertIdentifier: "waders" }
    const path = "/api/marketplace/expert/prepare-invoke"
    const refused = await call("POST", path, given)
    expect(refused).toMatchObject({ status: 404, body: { code: "no-such-expert" } })
    expect(refused.body["error"]).toContain("expertIdentifier")
    expect((await call("GET", "/api/sandbox/by-chat/c-expert")).status).toBe(404)
    const none = { ...given, expertIdentifier: null }
    expect((await call("POST", path, none)).status).toBe(200)
  })

  test("an invocation is a prompt for the session, and modes without a cloud need none", async () => {
    const { id } = sessionIn(await prepare("c2")) as { readonly id: string }
    const asked = await call("POST", "/api/agent/invoke", {
      sandbox_session_id: id,
      sandbox_mode: "cloud",
      message: "hello",
      message_id: "m1",
    })
    expect(asked.body).toMatchObject({ sandbox_session_id: id, message_id: "m1" })
    await untilTrue(() => provider.runnerOf(id)?.prompts.length === 1, "prompt of the runner")
    expect(provider.runnerOf(id)?.prompts[0]).toMatchObject({ messageId: "m1", content: "hello" })
    const none = { sandbox_mode: "none", message: "hello" }
    expect((await call("POST", "/api/agent/invoke", none)).body).toEqual({
      sandbox_mode: "none",
      sandbox_session_id: null,
    })
    const missing = { sandbox_mode: "cloud", message: "hello" }
    expect((await call("POST", "/api/agent/invoke", missing)).body["error"]).toBe(
      "sandbox_session_id: is required for the mode cloud",
    )
    const other = {
      sandbox_session_id: id,
      sandbox_provider: "e2b",
      sandbox_mode: "cloud",
      message: "x",
    }
    expect((await call("POST", "/api/agent/invoke", other)).status).toBe(409)
  })

  test("a paused session is resumed by agent/resume and takes the message", async () => {
    const { id } = sessionIn(await prepare("c3")) as { readonly id: string }
    await call("GET", "/api/sandbox/by-chat/c3?waitSeconds=60")
    expect((await call("POST", `/api/sandbox/${id}/pause?wait=1`)).body["status"]).toBe("paused")
    const resumed = { sandbox_session_id: id, message: "go on", message_id: "m2" }
    expect((await call("POST", "/api/agent/resume", resumed)).status).toBe(200)
    await untilTrue(
      () => provider.runnerOf(id)?.prompts.some(({ messageId }) => messageId === "m2") === true,
      "prompt of the woken runner",
    )
  })
})

describe("links to a sandbox", () => {
  test("a link of the hub has the address that the provider gives at that moment", async () => {
    const { body } = await call("POST", "/api/threads/L:1/resolve?wait=1")
    const { sessionId, providerSandboxId } = body
    const link = await call("POST", `/sessions/${String(sessionId)}/links`, { to: "vscode" })
    const url = new URL(String(link.body["url"]))
    expect(url.origin + url.pathname).toBe(
      `https://${String(providerSandboxId)}.sandboxes.example/vscode/`,
    )
    expect(url.searchParams.get("token")).toMatch(/^eyJ/)
  })
})

describe("repeated requests", () => {
  test("the same key gets the same answer, and another body with it is refused", async () => {
    const key = { "idempotency-key": "key-1" }
    const path = "/api/threads/I:1/prompt"
    const first = await call("POST", path, { message: "once" }, key)
    const again = await call("POST", path, { message: "once" }, key)
    expect(again.body).toEqual(first.body)
    expect(again.headers.get("idempotent-replay")).toBe("true")
    const id = String(first.body["sessionId"])
    await untilTrue(() => provider.runnerOf(id)?.prompts.length === 1, "one prompt")
    const other = await call("POST", path, { message: "another" }, key)
    expect(other).toMatchObject({ status: 422, body: { code: "key-reused" } })
    // Another owner's key of the same text is another key.
    const elsewhere = await call("POST", path, { message: "another" }, { ...key, ...as(alice) })
    expect(elsewhere.status).toBe(200)
    expect(provider.runnerOf(id)?.prompts).toHaveLength(1)
  })

  test("a request that was refused for a time is carried out with the same key after that time", async () => {
    const gina = { "x-user-id": "gina", "idempotency-key": "key-3" }
    for (let number = 1; number <= CREATES; number += 1) {
      const create = { tenant: "user:gina", session: `g${number}`, generation: 1, at: Date.now() }
      await store.countCreate(create, () => undefined)
    }
    const resolve = () => call("POST", "/api/threads/I:3/resolve", undefined, gina)
    const refused = await resolve()
    expect(refused.status).toBe(429)
    expect(refused.headers.get("retry-after")).not.toBeNull()
    await store.uncountCreate("g1", 1)
    expect((await resolve()).status).toBe(200)
    const again = await resolve()
    expect(again).toMatchObject({ status: 200 })
    expect(again.headers.get("idempotent-replay")).toBe("true")
  })

  test("an upload is repeated with its key also if its parts are divided in another way, and other files are refused", async () => {
    const { body } = await call("POST", "/api/threads/I:4/resolve?wait=1", undefined, {
      "x-user-id": "hanna",
    })
    const written: string[] = []
    const gateway = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: async (request) => {
        written.push(`${new URL(request.url).search} ${await request.text()}`)
        return Response.json({})
      },
    })
    const real = provider.address
    const changed = provider as { address: RunnerProvider["address"] }
    changed.address = async () => ({
      is: "ok",
      value: { url: gateway.url.origin, headers: {} },
    })
    const upload = async (content: string) => {
      const form = new FormData()
      form.append("file", new File([content], "heron.txt"))
      const response = await fetch(
        `${stack.hub.url}/api/sandbox/${String(body["sessionId"])}/uploads`,
        {
          method: "POST",
          headers: { authorization: `Bearer ${CLIENT_TOKEN}`, "idempotency-key": "key-4" },
          body: form,
        },
      )
      return { status: response.status, body: await response.json() }
    }
    try {
      const stored = { status: 200, body: { paths: ["uploads/heron.txt"] } }
      expect(await upload("grey")).toEqual(stored)
      expect(await upload("grey")).toEqual(stored)
      expect(written).toEqual(["?path=uploads%2Fheron.txt grey"])
      expect(await upload("white")).toMatchObject({ status: 422, body: { code: "key-reused" } })
      expect(written).toHaveLength(1)
    } finally {
      changed.address = real
      await gateway.stop(true)
    }
  })

  test("fifty parallel requests with one key are carried out once, and the others get its answer or are asked to wait", async () => {
    const path = "/api/threads/I:2/prompt"
    const key = { "idempotency-key": "key-2" }
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => call("POST", path, { message: "once" }, key)),
    )
    const statuses = new Set(answers.map(({ status }) => status))
    expect([...statuses].every((status) => status === 200 || status === 409)).toBe(true)
    const waiting = answers.find(({ status }) => status === 409)
    if (waiting) expect(waiting.headers.get("retry-after")).toBe("2")
    const id = String(answers.find(({ status }) => status === 200)?.body["sessionId"])
    await untilTrue(() => provider.runnerOf(id)?.prompts.length === 1, "one prompt")
  })

  test("fifty parallel resolves of one thread make one sandbox", async () => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => call("POST", "/api/threads/P:1/resolve")),
    )
    const [id] = new Set(answers.map(({ body }) => String(body["sessionId"])))
    const ready = await call("POST", "/api/threads/P:1/resolve?wait=1")
    expect(ready.body).toMatchObject({ sessionId: id, status: "running" })
    expect(provider.specs.filter(({ session }) => session === id)).toHaveLength(1)
  })
})

describe("a forgotten record", () => {
  test("the session goes on in a sandbox of the next generation, and the sweep ends the one of before", async () => {
    const ivan = { "x-user-id": "ivan" }
    const resolve = () => call("POST", "/api/threads/G:1/resolve?wait=1", undefined, ivan)
    const { sessionId, providerSandboxId: first } = (await resolve()).body
    const path = `/api/sandbox/${String(sessionId)}`
    expect((await call("DELETE", path)).body).toEqual({ forgotten: sessionId })
    expect((await call("GET", `${path}/status`)).status).toBe(404)
    expect((await provider.look(String(first))).is).toBe("ok")
    const again = (await resolve()).body
    expect(again).toMatchObject({ sessionId, status: "running", generation: 2 })
    await stack.sweeper.sweep()
    await untilTrue(
      async () => (await provider.look(String(first))).is === "missing",
      "end of the sandbox of before",
    )
    expect((await provider.look(String(again["providerSandboxId"]))).is).toBe("ok")
  })
})

describe("the six routes of another session agent", () => {
  const body = {
    ...externalSession,
    idleTimeoutSeconds: 900,
    envVars: {
      REPO_URL: "https://github.com/birds/heron",
      ANTHROPIC_API_KEY: "sk-of-carol",
      SANDPIPER_PUBLIC_URL: "https://heron.example",
    },
    personaFiles: [{ path: "SOUL.md", content: "calm" }],
  }

  test("a sandbox is created, saved, restored and ended with the tokens of the caller", async () => {
    const created = await call("POST", "/create-session", body)
    expect(created.status).toBe(200)
    const sandboxId = String(created.body["sandboxId"])
    expect(created.body["tunnelUrls"]).toMatchObject({
      gateway: `https://${sandboxId}.sandboxes.example`,
      vscode: `https://${sandboxId}.sandboxes.example/vscode`,
    })
    const [spec] = provider.specs.filter(({ session }) => session === body.sessionId)
    expect(spec).toMatchObject({
      labels: { tenant: "user:carol" },
      environment: {
        SESSION_ID: "external-1",
        DO_WS_URL: body.doWsUrl,
        RUNNER_TOKEN: body.runnerToken,
        JWT_SECRET: body.jwtSecret,
        ANTHROPIC_API_KEY: "sk-of-carol",
        SANDPIPER_PUBLIC_URL: "https://heron.example",
        PERSONA_FILES_JSON: JSON.stringify(body.personaFiles),
      },
    })
    // The same request again is the same sandbox.
    expect((await call("POST", "/create-session", body)).body["sandboxId"]).toBe(sandboxId)
    expect((await call("POST", "/session-status", { sandboxId })).body).toEqual({
      status: "running",
    })
    const saved = await call("POST", "/hibernate-session", { sandboxId })
    const snapshotImageId = String(saved.body["snapshotImageId"])
    expect(provider.snapshots.has(snapshotImageId)).toBe(true)
    expect((await call("POST", "/session-status", { sandboxId })).body).toEqual({
      status: "terminated",
    })
    // A repeated call, for example after a lost answer, gets the same snapshot.
    expect((await call("POST", "/hibernate-session", { sandboxId })).body).toEqual({
      snapshotImageId,
    })
    const restored = await call("POST", "/restore-session", {
      ...body,
      runnerToken: "another runner token of the caller",
      snapshotImageId,
    })
    const next = String(restored.body["sandboxId"])
    expect(next).not.toBe(sandboxId)
    expect(provider.specs.at(-1)).toMatchObject({
      image: { kind: "snapshot", id: snapshotImageId },
      environment: { RUNNER_TOKEN: "another runner token of the caller" },
    })
    expect((await call("POST", "/terminate-session", { sandboxId: next })).body).toEqual({
      success: true,
    })
    expect((await call("POST", "/delete-workspace", { sessionId: body.sessionId })).body).toEqual({
      success: true,
    })
    expect(provider.removedVolumes).toEqual(["workspace-external-1"])
  })

  test("a sandbox of the caller starts services of its snapshot only if the caller says so, one of the hub always", async () => {
    const sessionId = "external-services"
    const specOf = (id: string) => provider.specs.findLast(({ session }) => session === id)
    const { body: plain } = await call("POST", "/create-session", { ...body, sessionId })
    expect(specOf(sessionId)?.environment["SNAPSHOT_HAS_DEPS"]).toBeUndefined()
    await call("POST", "/terminate-session", { sandboxId: plain["sandboxId"] })
    const envVars = { SNAPSHOT_HAS_DEPS: "1" }
    const { body: asked } = await call("POST", "/create-session", { ...body, sessionId, envVars })
    expect(specOf(sessionId)?.environment["SNAPSHOT_HAS_DEPS"]).toBe("1")
    await call("POST", "/terminate-session", { sandboxId: asked["sandboxId"] })
    const { body: own } = await call("POST", "/api/threads/S:1/resolve?wait=1", undefined, {
      "x-user-id": "erin",
    })
    expect(specOf(String(own["sessionId"]))?.environment["SNAPSHOT_HAS_DEPS"]).toBe("1")
  })

  test("a sandbox of the caller saves its files in object storage only if the caller has one, because that of the hub is not the caller's", async () => {
    const sessionId = "external-storage"
    const syncOf = (id: string) =>
      provider.specs.findLast(({ session }) => session === id)?.environment["WORKSPACE_SYNC"]
    const { body: plain } = await call("POST", "/create-session", { ...body, sessionId })
    expect(syncOf(sessionId)).toBeUndefined()
    await call("POST", "/terminate-session", { sandboxId: plain["sandboxId"] })
    const envVars = { WORKSPACE_SYNC: "1" }
    const { body: asked } = await call("POST", "/create-session", { ...body, sessionId, envVars })
    expect(syncOf(sessionId)).toBe("1")
    await call("POST", "/terminate-session", { sandboxId: asked["sandboxId"] })
    const { body: own } = await call("POST", "/api/threads/S:2/resolve?wait=1", undefined, {
      "x-user-id": "frank",
    })
    expect(syncOf(String(own["sessionId"]))).toBe("1")
  })

  test("the idle time of the caller is the one that the provider gets", async () => {
    const idle = { ...body, sessionId: "external-idle", idleTimeoutSeconds: 120 }
    const { body: made } = await call("POST", "/create-session", idle)
    expect(provider.specs.at(-1)).toMatchObject({ session: "external-idle", idleMs: 120_000 })
    await call("POST", "/terminate-session", { sandboxId: made["sandboxId"] })
    const { idleTimeoutSeconds: _idle, ...usual } = { ...body, sessionId: "external-usual" }
    const { body: other } = await call("POST", "/create-session", usual)
    expect(provider.specs.at(-1)).toMatchObject({
      session: "external-usual",
      idleMs: 900_000,
      lifeMs: 10_800_000,
    })
    await call("POST", "/terminate-session", { sandboxId: other["sandboxId"] })
  })

  test("a sandbox that ended by itself gets no successor until the caller restores it, from the snapshot it names", async () => {
    const sessionId = "external-ended"
    const created = await call("POST", "/create-session", { ...body, sessionId })
    const first = String(created.body["sandboxId"])
    const saved = await call("POST", "/hibernate-session", { sandboxId: first })
    const { snapshotImageId } = saved.body
    const restore = () => call("POST", "/restore-session", { ...body, sessionId, snapshotImageId })
    const ofSession = () => provider.specs.filter(({ session }) => session === sessionId)
    const second = String((await restore()).body["sandboxId"])
    // The provider's own timeout; the fleet learns of it by the next sweep.
    await provider.terminate(second)
    await stack.sweeper.sweep()
    await untilTrue(
      async () => (await store.find(sessionId))?.life.phase === "absent",
      "end of the sandbox",
    )
    expect((await store.find(sessionId))?.life.pending).toBeUndefined()
    expect(ofSession()).toHaveLength(2)
    const third = String((await restore()).body["sandboxId"])
    expect(ofSession().at(-1)?.image).toEqual({ kind: "snapshot", id: String(snapshotImageId) })
    // This time the caller is faster than the sweep.
    await provider.terminate(third)
    const fourth = String((await restore()).body["sandboxId"])
    expect(fourth).not.toBe(third)
    expect(ofSession()).toHaveLength(4)
    // The snapshot that it was made from is not a snapshot of its work.
    await provider.terminate(fourth)
    expect(await call("POST", "/hibernate-session", { sandboxId: fourth })).toMatchObject({
      status: 409,
      body: { code: "already-finished" },
    })
  })

  test("a hibernation whose caller has gone keeps the id of its snapshot for the next call, also after another create", async () => {
    const given = { ...body, sessionId: "external-lost-answer", userId: "hanna" }
    const created = await call("POST", "/create-session", given)
    const sandboxId = String(created.body["sandboxId"])
    const real = provider.snapshot
    const slow = provider as { snapshot: RunnerProvider["snapshot"] }
    const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
    slow.snapshot = async (...asked) => {
      await isReleased
      return real(...asked)
    }
    const gone = new AbortController()
    const lost = fetch(`${stack.hub.url}/hibernate-session`, {
      method: "POST",
      headers: as(CLIENT_TOKEN),
      body: JSON.stringify({ sandboxId }),
      signal: gone.signal,
    }).catch(() => "no answer")
    await untilTrue(
      async () => (await store.find(given.sessionId))?.life.pending?.call.do === "snapshot",
      "the snapshot is being made",
    )
    gone.abort()
    expect(await lost).toBe("no answer")
    release()
    await untilTrue(
      async () => (await store.find(given.sessionId))?.life.ref === undefined,
      "the sandbox has ended",
    )
    slow.snapshot = real
    const saved = { status: 200, body: { snapshotImageId: `snapshot-of-${sandboxId}` } }
    const hibernate = (id: string) => call("POST", "/hibernate-session", { sandboxId: id })
    expect(await hibernate(sandboxId)).toMatchObject(saved)
    const next = String((await call("POST", "/create-session", given)).body["sandboxId"])
    expect(next).not.toBe(sandboxId)
    expect(await hibernate(sandboxId)).toMatchObject(saved)
    // Neither the new sandbox nor the snapshot of the former one is taken for the other's.
    await call("POST", "/terminate-session", { sandboxId: next })
    expect(await hibernate(next)).toMatchObject({
      status: 409,
      body: { code: "already-finished" },
    })
  })

  test("variables that the fleet or the image sets are refused by name, and an unknown image type is refused", async () => {
    const forged = { ...body, envVars: { RUNNER_TOKEN: "forged", JWT_SECRET: "forged" } }
    const refused = await call("POST", "/create-session", forged)
    expect(refused.status).toBe(400)
    expect(refused.body["error"]).toContain("RUNNER_TOKEN, JWT_SECRET")
    expect(JSON.stringify(refused.body)).not.toContain("forged")
    const machine = { PATH: "/opt", HOME: "/h", AGENT_USER: "root", WHISPER_MODELS: "/m" }
    const ofImage = await call("POST", "/create-session", { ...body, envVars: machine })
    expect(ofImage.status).toBe(400)
    expect(ofImage.body["error"]).toContain("PATH, HOME, AGENT_USER, WHISPER_MODELS")
    expect((await call("POST", "/create-session", { ...body, imageType: "gpu" })).status).toBe(400)
  })
})

describe("what an operator reads after a thread was used and the session of another session agent was saved", () => {
  const log: string[] = []
  const used = runnerProvider()
  let watched: ServeStack
  const ask = callsTo(() => watched)

  beforeAll(async () => {
    watched = await startStack(join(folder, "watched"), {
      provider: used,
      store: openSqliteStore(":memory:"),
      hub: { log: recordingLog(log) },
    })
    const thread = "/api/threads/O:1"
    const { body } = await ask("POST", `${thread}/resolve?wait=1`)
    const sandbox = `/api/sandbox/${String(body["sessionId"])}`
    expect((await ask("POST", `${thread}/prompt`, { message: "hello" })).status).toBe(200)
    await untilTrue(() => log.join("\n").includes(`"sandbox.prompt.ok"`), "end of the prompt")
    expect((await ask("POST", `${sandbox}/pause?wait=1`)).body["status"]).toBe("paused")
    expect((await ask("POST", `${thread}/resolve?wait=1`)).body["status"]).toBe("running")
    const { sandboxId } = (await ask("POST", "/create-session", externalSession)).body
    expect((await ask("POST", "/hibernate-session", { sandboxId })).status).toBe(200)
  })
  afterAll(async () => {
    await used.stop()
    await watched.stop()
  })

  test("the counters count creates, resumes, snapshots and prompts by the names of the runbook", async () => {
    const { body } = await ask("GET", "/metrics")
    const text = String(body["text"])
    for (const name of [
      "sandpiper_sandboxes",
      "sandpiper_creates_total",
      "sandpiper_resumes_total",
      "sandpiper_session_replacements_total",
      "sandpiper_health_retries_total",
      "sandpiper_prompt_retries_total",
      "sandpiper_snapshots_total",
      "sandpiper_strays_total",
      "sandpiper_seconds_total",
      "sandpiper_pool_claims_total",
      "sandpiper_call_seconds_bucket",
    ])
      expect(text).toContain(name)
    expect(Number(/sandpiper_creates_total\{provider="noop"\} (\d+)/.exec(text)?.[1])).toBe(
      used.specs.length,
    )
    expect(text).toContain('sandpiper_resumes_total{provider="noop"} 1')
    expect(text).toContain(
      `sandpiper_snapshots_total{provider="noop",outcome="ok"} ${used.snapshots.size}`,
    )
    expect(used.snapshots.size).toBe(1)
    expect(text).toMatch(/sandpiper_prompts_total\{result="ok"\} \d+/)
    expect((await ask("GET", "/ready")).body).toMatchObject({ ready: true })
  })

  test("the log names the events of the runbook and holds no token", () => {
    const all = log.join("\n")
    for (const event of [
      "sandbox.resolve.start",
      "sandbox.resolve.reuse",
      "sandbox.resolve.recreate",
      "sandbox.prompt.ok",
      "sandbox.phase",
      "provider.create.start",
      "provider.create.ok",
    ])
      expect(all).toContain(`"${event}"`)
    expect(all).not.toContain("a runner token of the caller")
  })
})

describe("what an operator is told of faults", () => {
  test("a fleet whose database or provider does not answer is not ready and says which", async () => {
    const broken = async () => Promise.reject(new Error("away"))
    const { due } = store
    const { health } = provider
    const parts = { store: store as { due: unknown }, provider: provider as { health: unknown } }
    const ready = async () => {
      const { status, body, headers } = await call("GET", "/ready")
      return { status, ...body, after: headers.get("retry-after") }
    }
    const fine = { status: 200, ready: true, providerAnswers: true, databaseAnswers: true }
    expect(await ready()).toMatchObject({ ...fine, after: null })
    parts.store.due = broken
    const withoutDatabase = await ready()
    parts.store.due = due
    parts.provider.health = broken
    const withoutProvider = await ready()
    parts.provider.health = health
    const away = { status: 503, ready: false, after: "5" }
    expect(withoutDatabase).toMatchObject({
      ...away,
      providerAnswers: true,
      databaseAnswers: false,
    })
    expect(withoutProvider).toMatchObject({
      ...away,
      providerAnswers: false,
      databaseAnswers: true,
    })
    expect(await ready()).toMatchObject(fine)
  })

  test("a provider's error reaches the caller without keys", async () => {
    const real = provider.removeVolume
    const failing = provider as { removeVolume: RunnerProvider["removeVolume"] }
    failing.removeVolume = async () => ({
      is: "unknown",
      why: "401 for key sk-ant-abcdefgh12345678 at https://user:password@api.example/",
    })
    const { status, body, headers } = await call("POST", "/delete-workspace", { sessionId: "x" })
    failing.removeVolume = real
    expect(status).toBe(503)
    expect(headers.get("retry-after")).toBe("30")
    expect(body["error"]).not.toContain("sk-ant")
    expect(body["error"]).not.toContain("password")
  })
})
