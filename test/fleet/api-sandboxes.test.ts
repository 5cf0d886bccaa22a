/**
 * What callers of the fleet's HTTP API are told about a sandbox that is asked for, away, full or another one. All tests share one
 * hub and one fleet; each uses its own session, thread or chat, and its own owner, who may run one sandbox.
 */
import { afterAll, afterEach, beforeAll, describe, expect, spyOn, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { specElsewhere } from "../../src/fleet/providers/elsewhere.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { startFakeRunner } from "../hub/kit/fake-runner.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { recordingLog } from "../kit/log.ts"
import { untilTrue } from "../kit/until-true.ts"
import { freePort } from "../kit/free-port.ts"
import { runnerProvider, type RunnerProvider } from "./kit/runner-provider.ts"
import { startStack } from "./kit/stack.ts"

const folder = mkdtempSync(join(tmpdir(), "fleet-api-sandboxes-"))
const log: string[] = []
const store = openSqliteStore(":memory:")
const provider = runnerProvider()
const { address, create: make, look } = provider
const changed = provider as {
  -readonly [Name in "address" | "create" | "look"]: RunnerProvider[Name]
}
let stack: ServeStack

beforeAll(async () => {
  stack = await startStack(folder, {
    provider,
    store,
    quotas: { running: 1 },
    hub: {
      log: recordingLog(log),
    },
  })
})
afterEach(() => {
  Object.assign(changed, { address, create: make, look })
})
afterAll(async () => {
  await provider.stop()
  await stack.stop()
  rmSync(folder, { recursive: true, force: true })
})

const call = async (method: string, path: string, body?: object | FormData, user = "ann") => {
  const response = await fetch(`${stack.hub.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${CLIENT_TOKEN}`, "x-user-id": user },
    ...(body && { body: body instanceof FormData ? body : JSON.stringify(body) }),
  })
  const { status, headers } = response
  return { status, body: (await response.json()) as Record<string, unknown>, headers }
}
const running = async (thread: string, user: string): Promise<string> => {
  const { body } = await call("POST", `/api/threads/${thread}/resolve?wait=1`, undefined, user)
  expect(body["status"]).toBe("running")
  return `/api/sandbox/${String(body["sessionId"])}`
}

describe("a sandbox of another session agent", () => {
  const given = {
    sessionId: "elsewhere-1",
    userId: "carol",
    doWsUrl: "wss://worker.example/ws?role=runner",
    runnerToken: "a runner token of the caller",
    jwtSecret: "a gateway key of the caller",
  }

  test("its runner connects to the address of that agent, also if sandboxes reach this hub at another one", async () => {
    const customProviders = [{ providerId: "p", apiKey: "key-of-a-provider" }]
    const { status } = await call("POST", "/create-session", { ...given, customProviders })
    expect(status).toBe(200)
    const spec = provider.specs.find(({ session }) => session === given.sessionId)
    if (!spec) throw new Error("no sandbox was created")
    const moved = specElsewhere(spec, { image: "i", hubUrl: "wss://this-hub.example" })
    expect(moved.environment["DO_WS_URL"]).toBe(given.doWsUrl)
    // The agent sends them over its link; their keys are nowhere here.
    expect(JSON.stringify([spec, await store.find(given.sessionId)])).not.toContain("key-of-a")
  })

  test("a sandbox with another token is not the one that was asked for, and a restore is no running sandbox", async () => {
    const again = (more: object) => call("POST", "/create-session", { ...given, ...more })
    expect((await again({})).status).toBe(200)
    for (const more of [
      { runnerToken: "another runner token of the caller" },
      { jwtSecret: "another gateway key of the caller" },
      { doWsUrl: "wss://other.example/ws" },
      // Variables and files of a persona are those that the sandbox was started with.
      { envVars: { PLUMAGE: "winter" } },
      { personaFiles: [{ filename: "PERSONA.md", content: "Wade." }] },
    ])
      expect(await again(more)).toMatchObject({ status: 409, body: { code: "has-sandbox" } })
    const restored = await call("POST", "/restore-session", { ...given, snapshotImageId: "snap" })
    expect(restored).toMatchObject({ status: 409, body: { code: "has-sandbox" } })
  })

  test("a repeated create with another idle time is refused, and one with the same or with none is the same sandbox", async () => {
    const create = (more: object) => call("POST", "/create-session", { ...given, ...more })
    const created = await create({})
    // The sandbox has the idle time of the fleet: 900 s.
    expect(await create({ idleTimeoutSeconds: 900 })).toMatchObject({ body: created.body })
    const refused = await create({ idleTimeoutSeconds: 120 })
    expect(refused).toMatchObject({ status: 409, body: { code: "has-sandbox" } })
    expect(String(refused.body["error"])).toContain("another idle time")
    await call("POST", "/terminate-session", { sandboxId: created.body["sandboxId"] })
    const short = await create({ idleTimeoutSeconds: 120 })
    expect(short.status).toBe(200)
    for (const same of [{}, { idleTimeoutSeconds: 120 }])
      expect(await create(same)).toMatchObject({ status: 200, body: short.body })
    expect((await create({ idleTimeoutSeconds: 900 })).status).toBe(409)
  })

  test("a restore from a snapshot that does not exist is refused, and makes no empty sandbox", async () => {
    const sessionId = "elsewhere-2"
    const body = { ...given, sessionId, userId: "dora", snapshotImageId: "never-made" }
    expect(await call("POST", "/restore-session", body)).toMatchObject({
      status: 404,
      body: { code: "no-snapshot", error: "the snapshot never-made does not exist" },
    })
    expect(provider.specs.filter(({ session }) => session === sessionId)).toEqual([])
    const { status } = await call("POST", "/create-session", body)
    expect(status).toBe(200)
  })

  test("a session that is ended while its snapshot is looked for, which does not exist, has ended", async () => {
    const sessionId = "elsewhere-ended"
    const [asked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    changed.create = async (...spec) => {
      asked.resolve()
      await released.promise
      return make(...spec)
    }
    const body = { ...given, sessionId, userId: "erin", snapshotImageId: "never-made" }
    const restored = call("POST", "/restore-session", body)
    await asked.promise
    const path = `/api/sandbox/${sessionId}/terminate?wait=1`
    const ended = call("POST", path, undefined, "erin")
    await untilTrue(
      async () => (await store.find(sessionId))?.life.wanted === "ended",
      "the end is wanted",
    )
    released.resolve()
    expect((await ended).body["status"]).toBe("terminated")
    expect(await restored).toMatchObject({ status: 404, body: { code: "no-snapshot" } })
    expect((await store.find(sessionId))?.life.phase).toBe("ended")
  })

  test("the volume of a workspace is deleted when no sandbox uses it", async () => {
    const sessionId = "elsewhere-volume"
    const created = await call("POST", "/create-session", { ...given, sessionId, userId: "vita" })
    const { sandboxId } = created.body
    const volume = `workspace-${sessionId}`
    const removed = () => provider.removedVolumes.filter((name) => name === volume)
    const remove = () => call("POST", "/delete-workspace", { sessionId })
    expect(await remove()).toMatchObject({ status: 409, body: { code: "has-sandbox" } })
    expect(removed()).toEqual([])
    await call("POST", "/terminate-session", { sandboxId })
    expect(await remove()).toMatchObject({ status: 200, body: { success: true } })
    expect(removed()).toEqual([volume])
  })

  test("while it is hibernated, only its agent starts it: other calls are refused and start nothing", async () => {
    const body = { ...given, sessionId: "elsewhere-asleep", userId: "hedy" }
    const created = await call("POST", "/create-session", body)
    const { sandboxId } = created.body
    const path = `/api/sandbox/${body.sessionId}`
    const resume = { sandbox_session_id: body.sessionId }
    expect((await call("POST", `${path}/resume?wait=1`, undefined, "hedy")).body).toMatchObject({
      status: "running",
      providerSandboxId: sandboxId,
    })
    const saved = await call("POST", "/hibernate-session", { sandboxId })
    const before = await store.find(body.sessionId)
    for (const [method, route, sent] of [
      ["GET", `${path}/files`, undefined],
      ["GET", `${path}/artifacts`, undefined],
      ["POST", `${path}/exec`, { command: "true" }],
      ["POST", `${path}/resume?wait=1`, undefined],
      ["POST", "/api/agent/resume", resume],
      ["POST", "/api/agent/resume", { ...resume, message: "hello" }],
    ] as const)
      expect(await call(method, route, sent, "hedy")).toMatchObject({
        status: 409,
        body: { code: "asleep" },
      })
    expect(await store.find(body.sessionId)).toEqual(before)
    // Its agent restores it with a new token.
    const restored = await call("POST", "/restore-session", {
      ...body,
      runnerToken: "a second runner token of the caller",
      snapshotImageId: saved.body["snapshotImageId"],
    })
    expect(restored.status).toBe(200)
    await call("POST", "/terminate-session", { sandboxId: restored.body["sandboxId"] })
  })

  test("a call to its sandbox does not stop the hibernation that its agent has asked for", async () => {
    const body = { ...given, sessionId: "elsewhere-leaving", userId: "hugo" }
    const { sandboxId } = (await call("POST", "/create-session", body)).body
    const real = provider.snapshot
    const slow = provider as { snapshot: RunnerProvider["snapshot"] }
    const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
    slow.snapshot = async (...asked) => {
      await isReleased
      return real(...asked)
    }
    changed.address = async () => ({ is: "ok", value: { url: "http://127.0.0.1:1", headers: {} } })
    const saving = call("POST", "/hibernate-session", { sandboxId })
    await untilTrue(
      async () => (await store.find(body.sessionId))?.life.pending?.call.do === "snapshot",
      "the snapshot is being made",
    )
    const asked = await call("GET", `/api/sandbox/${body.sessionId}/files`, undefined, "hugo")
    expect(asked.body["code"]).toBe("sandbox-away")
    release()
    expect((await saving).status).toBe(200)
    slow.snapshot = real
  })

  test("the volume that the sessions of an orchestrator share is deleted when no sandbox of them uses it", async () => {
    const [first, second] = ["orchestrator:olga:1", "orchestrator:olga:2"]
    const body = { ...given, sessionId: second, userId: "olga" }
    const { sandboxId } = (await call("POST", "/create-session", body)).body
    const removed = () => provider.removedVolumes.filter((name) => name.includes("olga"))
    for (const sessionId of [first, second]) {
      const refused = await call("POST", "/delete-workspace", { sessionId })
      expect(refused).toMatchObject({ status: 409, body: { code: "has-sandbox" } })
      expect(String(refused.body["error"])).toContain(second)
    }
    expect(removed()).toEqual([])
    await call("POST", "/terminate-session", { sandboxId })
    expect((await call("POST", "/delete-workspace", { sessionId: first })).status).toBe(200)
    expect(removed()).toEqual(["workspace-orchestrator-olga"])
  })

  test("a repeated terminate of its sandbox succeeds and leaves the next sandbox alone", async () => {
    const body = { ...given, sessionId: "elsewhere-twice", userId: "tess" }
    const terminate = (sandboxId: unknown) => call("POST", "/terminate-session", { sandboxId })
    const done = { status: 200, body: { success: true } }
    const first = (await call("POST", "/create-session", body)).body["sandboxId"]
    expect(await terminate(first)).toMatchObject(done)
    expect(await terminate(first)).toMatchObject(done)
    const second = (await call("POST", "/create-session", body)).body["sandboxId"]
    expect(second).not.toBe(first)
    expect(await terminate(first)).toMatchObject(done)
    expect((await store.find(body.sessionId))?.life).toMatchObject({
      phase: "running",
      ref: second,
    })
    expect(await terminate(second)).toMatchObject(done)
    // Sandboxes of the hub's sessions are not this route's, also after their end.
    const path = await running("T:1", "tom")
    const { providerSandboxId } = (await call("GET", `${path}/status`, undefined, "tom")).body
    for (const verb of ["status", "terminate?wait=1"]) {
      await call(verb === "status" ? "GET" : "POST", `${path}/${verb}`, undefined, "tom")
      expect(await terminate(providerSandboxId)).toMatchObject({
        status: 409,
        body: { code: "already-finished" },
      })
    }
    expect((await terminate("never-made")).status).toBe(409)
  })

  test("only the provider's own word makes its status terminated", async () => {
    const { body } = await call("POST", "/create-session", given)
    const { sandboxId } = body
    const status = () => call("POST", "/session-status", { sandboxId })
    const found = await look(String(sandboxId))
    if (found.is !== "ok") throw new Error("the sandbox is not there")
    for (const [state, said] of [
      ["starting", "running"],
      ["running", "running"],
      ["paused", "paused"],
      ["stopped", "terminated"],
      ["dead", "terminated"],
    ] as const) {
      changed.look = async () => ({ is: "ok", value: { ...found.value, state } })
      expect((await status()).body).toEqual({ status: said })
    }
    for (const is of ["refused", "unknown"] as const) {
      changed.look = async () => ({ is, why: "401 for key sk-ant-abcdefgh12345678" })
      const { status: code, body: problem } = await status()
      expect(code).toBe(503)
      expect(JSON.stringify(problem)).not.toContain("sk-ant")
    }
  })
})

describe("a sandbox that is asked for", () => {
  test("files of one upload with the same name are all stored", async () => {
    const path = await running("U:1", "uma")
    const written = new Map<string, string>()
    const gateway = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: async (request) => {
        const name = new URL(request.url).searchParams.get("path") ?? ""
        written.set(name, await request.text())
        return Response.json({})
      },
    })
    changed.address = async () => ({ is: "ok", value: { url: gateway.url.origin, headers: {} } })
    const form = new FormData()
    for (const [name, content] of [
      ["image.png", "1"],
      ["image.png", "2"],
      ["image-2.png", "3"],
      ["鹭.txt", "4"],
      ["鹤.txt", "5"],
      [".env", "6"],
      ["env", "7"],
    ] as const)
      form.append("file", new File([content], name))
    const { body } = await call("POST", `${path}/uploads`, form, "uma")
    await gateway.stop(true)
    const paths = body["paths"] as readonly string[]
    expect(paths.map((one) => written.get(one))).toEqual(["1", "2", "3", "4", "5", "6", "7"])
    expect(paths.slice(0, 3)).toEqual([
      "uploads/image.png",
      "uploads/image-2.png",
      "uploads/image-2-2.png",
    ])
  })

  test("a sandbox that answers without end is not read to its end, and its folders are not listed for ever", async () => {
    const path = await running("H:1", "hank")
    const CHUNK = new Uint8Array(1024 * 1024).fill(32)
    const CHUNKS = 200
    let sent = 0
    let done = 0
    let listed = 0
    const modified = "2026-01-01T00:00:00Z"
    const entry = (name: string, entryType: string) => ({
      name,
      path: `/workspace/${name}`,
      entryType,
      size: 1,
      modified,
    })
    const folders = JSON.stringify([
      ...Array.from({ length: 30 }, (_, index) => entry(`f${index}`, "directory")),
      entry("last.txt", "file"),
    ])
    let isEndless = true
    const gateway = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: (request) => {
        if (request.url.endsWith("/v1/agent-directory")) return new Response("", { status: 404 })
        if (request.method === "POST") done += 1
        else listed += 1
        if (!isEndless) return new Response(folders)
        sent = 0
        const body = new ReadableStream({
          pull: (stream) => {
            sent += 1
            if (sent > CHUNKS) stream.close()
            else stream.enqueue(CHUNK)
          },
        })
        return new Response(body)
      },
    })
    changed.address = async () => ({ is: "ok", value: { url: gateway.url.origin, headers: {} } })
    const exec = () =>
      fetch(`${stack.hub.url}${path}/exec`, {
        method: "POST",
        headers: { authorization: `Bearer ${CLIENT_TOKEN}`, "idempotency-key": "hank-1" },
        body: JSON.stringify({ command: "yes" }),
      }).then(async (response) => ({ status: response.status, body: await response.json() }))
    try {
      const tooLong = { status: 502, body: { code: "answer-too-long" } }
      for (const [method, route] of [
        ["GET", "artifacts"],
        ["POST", "restart-dev-server"],
      ] as const) {
        expect(await call(method, `${path}/${route}`, undefined, "hank")).toMatchObject(tooLong)
        expect(sent).toBeLessThan(CHUNKS)
      }
      done = 0
      expect(await exec()).toMatchObject(tooLong)
      expect(sent).toBeLessThan(CHUNKS)
      // The program ran: the repeated request gets the same answer and does not run it again.
      expect(await exec()).toMatchObject(tooLong)
      expect(done).toBe(1)
      isEndless = false
      listed = 0
      const { body } = await call("GET", `${path}/artifacts`, undefined, "hank")
      expect(listed).toBe(100)
      // The files of every folder that was listed.
      const found = (body["artifacts"] as readonly { readonly path: string }[]).map(
        ({ path: place }) => place,
      )
      expect(found).toHaveLength(100)
      expect(found).toContain("output/display/last.txt")
    } finally {
      await gateway.stop(true)
    }
  })

  test("a gateway that does not answer is a sandbox to be asked again, not a fault of the server", async () => {
    const path = await running("A:1", "abe")
    changed.address = async () => ({ is: "ok", value: { url: "http://127.0.0.1:1", headers: {} } })
    const answer = await call("GET", `${path}/files`, undefined, "abe")
    expect(answer).toMatchObject({ status: 503, body: { code: "sandbox-away" } })
    expect(answer.headers.get("retry-after")).toBe("5")
  })

  test("above the quota a sleeping sandbox is not woken, and its caller is told at once", async () => {
    const first = await running("Q:1", "quinn")
    await call("POST", `${first}/pause?wait=1`, undefined, "quinn")
    await running("Q:2", "quinn")
    for (const [method, verb] of [
      ["POST", "resume?wait=1"],
      ["GET", "files"],
    ] as const) {
      const refused = await call(method, `${first}/${verb}`, undefined, "quinn")
      expect(refused).toMatchObject({ status: 429, body: { code: "quota" } })
      expect(refused.headers.get("retry-after")).toBe("30")
    }
    const id = first.split("/").at(-1) ?? ""
    const link = await call("POST", `/sessions/${id}/links`, { to: "terminal" }, "quinn")
    expect(link.status).toBe(503)
    expect(JSON.stringify(link.body)).toContain("could not be woken")
    expect((await call("GET", `${first}/status`, undefined, "quinn")).body["status"]).toBe("paused")
  })

  for (const [verb, user, to] of [
    ["pause", "lea", "terminal"],
    ["hibernate", "leo", "terminal"],
    ["pause", "lia", "tunnel:web"],
    ["hibernate", "lux", "tunnel:web"],
  ] as const)
    test(`a link to the ${to} of a sandbox after ${verb} wakes it and has the address of the one that runs then`, async () => {
      const path = await running("L:1", user)
      const id = path.split("/").at(-1) ?? ""
      const session = stack.hub.find(id)
      provider
        .runnerOf(id)
        ?.send({ type: "tunnels", tunnels: [{ name: "web", port: 3000, path: "/t/web/" }] })
      await untilTrue(() => session?.state("tunnels") !== undefined, "the tunnel")
      const asleep = await call("POST", `${path}/${verb}?wait=1`, undefined, user)
      expect(asleep.body["status"]).toBe("paused")
      const link = await call("POST", `/sessions/${id}/links`, { to }, user)
      const now = await call("GET", `${path}/status`, undefined, user)
      expect(now.body["status"]).toBe("running")
      expect(new URL(String(link.body["url"])).host).toBe(
        `${String(now.body["providerSandboxId"])}.sandboxes.example`,
      )
    })

  test("a link to a tunnel that a sleeping sandbox does not have is refused and does not wake it", async () => {
    const path = await running("L:1", "lot")
    await call("POST", `${path}/pause?wait=1`, undefined, "lot")
    const id = path.split("/").at(-1) ?? ""
    const link = await call("POST", `/sessions/${id}/links`, { to: "tunnel:web" }, "lot")
    expect(link.status).toBe(404)
    expect((await call("GET", `${path}/status`, undefined, "lot")).body["status"]).toBe("paused")
  })

  test("a link to a session that another program runs has the address of that runner, and starts no sandbox", async () => {
    const path = await running("L:1", "lou")
    const id = path.split("/").at(-1) ?? ""
    const made = provider.specs.length
    const token = "a token of another program"
    await call("PUT", `/sessions/${id}`, { runnerToken: token }, "lou")
    const other = startFakeRunner({
      url: stack.hub.runnerUrl(id),
      token,
      stateDir: join(folder, "other"),
      answer: () => [],
      eager: true,
      gatewayUrl: "https://box.example",
    })
    const hasAddress = () => stack.hub.find(id)?.gatewayUrl() === "https://box.example"
    await untilTrue(hasAddress, "the other runner")
    const link = await call("POST", `/sessions/${id}/links`, { to: "terminal" }, "lou")
    expect(new URL(String(link.body["url"])).host).toBe("box.example")
    expect(provider.specs).toHaveLength(made)
    await other.stop()
  })

  test("a prompt for a session whose end the fleet has not heard of is refused, not a fault of the server", async () => {
    const path = await running("E:1", "eli")
    const id = path.split("/").at(-1) ?? ""
    const real = stack.hub.find(id)
    if (!real) throw new Error("the hub has no such session")
    const ended = spyOn(real, "status").mockReturnValue({ ...real.status(), status: "ended" })
    const refused = await call("POST", "/api/threads/E:1/prompt", { message: "hello" }, "eli")
    ended.mockRestore()
    expect(refused).toMatchObject({ status: 409, body: { code: "refused-by-hub" } })
  })

  test("a message id that another message has is refused, and the same message again changes nothing", async () => {
    await running("M:1", "mia")
    const say = (message: string) =>
      call("POST", "/api/threads/M:1/prompt", { message, messageId: "once" }, "mia")
    expect((await say("wade")).status).toBe(200)
    expect((await say("wade")).status).toBe(200)
    const refused = await say("fly")
    expect(refused).toMatchObject({ status: 409, body: { code: "refused-by-hub" } })
    expect(refused.body["error"]).toContain("was used for another message")
  })

  test("a session that the operator deletes leaves its volume to be removed later", async () => {
    const path = await running("F:1", "finn")
    const session = path.split("/").at(-1)
    const deleted = await fetch(`${stack.hub.url}${path}`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
    })
    expect(await deleted.json()).toEqual({ forgotten: session })
    const left = await store.leftVolumes(Date.now(), 0, 10)
    expect(left).toEqual([{ session: String(session), provider: provider.name }])
  })

  test("a parameter that is on or off is read by its value, and another value is refused before anything is done", async () => {
    // A sandbox of a session that nobody knows, an hour old.
    const createdAt = Date.now() - 3_600_000
    const { list } = provider
    const listing = provider as { list: RunnerProvider["list"] }
    listing.list = async function* (by) {
      yield* list(by)
      const known = { session: "unknown", generation: 1, createdAt, expiresAt: undefined }
      yield { ...known, ref: "stray", state: "running" }
    }
    const sweep = (query: string) => call("POST", `/api/sweep${query}`)
    const leaked = { leaked: ["stray"] }
    for (const query of ["?dryRun", "?dryRun=1", "?dryRun=true"])
      expect((await sweep(query)).body).toMatchObject({ ...leaked, terminated: 0 })
    for (const [path, name] of [
      ["/api/sweep?dryRun=yes", "dryRun"],
      ["/api/threads/V:1/resolve?wait=60", "wait"],
    ] as const) {
      const refused = await call("POST", path, undefined, "vera")
      expect(refused).toMatchObject({ status: 400, body: { code: "bad-request" } })
      expect(refused.body["error"]).toBe(`${name}: expected 1 or 0`)
    }
    expect(await store.findThread("user:vera", "V:1")).toBeUndefined()
    expect((await sweep("?dryRun=0")).body).toMatchObject({ ...leaked, terminated: 1 })
    listing.list = list
    const { body } = await call("POST", "/api/threads/V:1/resolve?wait=0", undefined, "vera")
    expect(body["status"]).not.toBe("running")
    await running("V:1", "vera")
  })

  test("the optional fields of a chat may be null", async () => {
    const chat = { chatSessionId: "c", expertIdentifier: null, projectId: null }
    const path = "/api/marketplace/expert/prepare-invoke"
    expect((await call("POST", path, chat, "nora")).status).toBe(200)
  })
})

describe("a caller that waits for the sandbox of a chat", () => {
  const find = async (chat: string, owner: string) => {
    const path = `/api/sandbox/by-chat/${chat}?waitSeconds=100`
    return (await call("GET", path, undefined, owner)).body
  }
  const chatThatIs = async (chat: string, owner: string, verb: "pause" | "terminate") => {
    const body = { chatSessionId: chat }
    await call("POST", "/api/marketplace/expert/prepare-invoke", body, owner)
    const id = String((await find(chat, owner))["sessionId"])
    await call("POST", `/api/sandbox/${id}/${verb}?wait=1`)
    return id
  }

  test("is told within seconds that it sleeps or has ended", async () => {
    await chatThatIs("l1", "lars", "pause")
    await chatThatIs("l2", "lars", "terminate")
    const from = performance.now()
    const [paused, ended] = await Promise.all([find("l1", "lars"), find("l2", "lars")])
    expect([paused["status"], ended["status"]]).toEqual(["paused", "terminated"])
    // The promise is that the answer does not take the 100 seconds that the caller would wait. It takes five.
    expect(performance.now() - from).toBeLessThan(60_000)
  })

  test("gets the one that a prompt of the same moment wakes", async () => {
    const id = await chatThatIs("l3", "lena", "pause")
    const invoke = { sandbox_session_id: id, sandbox_mode: "cloud", message: "wake up" }
    const [found] = await Promise.all([
      find("l3", "lena"),
      call("POST", "/api/agent/invoke", invoke),
    ])
    expect(found).toMatchObject({ sessionId: id, status: "running" })
  })
})

test("a request that comes before the fleet is there waits for it", async () => {
  const state = mkdtempSync(join(tmpdir(), "fleet-early-"))
  const own = openSqliteStore(":memory:")
  const { promise: isKnown, resolve: go } = Promise.withResolvers<void>()
  const port = freePort()
  const runners = runnerProvider()
  const starting = startStack(state, {
    provider: runners,
    store: { ...own, deployment: () => isKnown.then(() => own.deployment()) },
    hub: { port },
  })
  try {
    const url = `http://127.0.0.1:${port}`
    // The hub itself refuses another host name, without the fleet.
    const isUp = () =>
      fetch(url, { headers: { host: "elsewhere.example" } }).then(
        ({ status }) => status === 421,
        () => false,
      )
    await untilTrue(isUp, "hub that answers")
    let isAnswered = false
    const answer = fetch(`${url}/api/sandboxes`, {
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
    }).finally(() => {
      isAnswered = true
    })
    // A later request is answered, and the early one still waits.
    expect(await isUp()).toBe(true)
    expect(isAnswered).toBe(false)
    go()
    expect((await answer).status).toBe(200)
  } finally {
    go()
    await (await starting).stop()
    await runners.stop()
    rmSync(state, { recursive: true, force: true })
  }
})
