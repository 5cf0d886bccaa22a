/**
 * Durable Objects on workerd and a fleet behind FLEET_URL: sandboxes for prompts and child sessions, signed calls. All tests share
 * workerd, the fleet and its store; each has sessions of its own.
 */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "bun:test"
import { SignJWT } from "jose"
import type { ServedFleet } from "../../../../src/cli/serve-fleet.ts"
import { isReady } from "../../../../src/fleet/core/pool.ts"
import type { FleetStore } from "../../../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../../../src/fleet/store/sqlite-store.ts"
import { createJwtVerifier } from "../../../../src/hub/access/verify-jwt.ts"
import { SIGNATURE_HEADER, signedPost } from "../../../../src/lib/signed-request.ts"
import { changedLife } from "../../../fleet/kit/life.ts"
import { runnerProvider, type RunnerProvider } from "../../../fleet/kit/runner-provider.ts"
import { FLEET_KEY, OPERATOR_TOKEN, serveFleet } from "../../../fleet/kit/served-fleet.ts"
import { untilTrue } from "../../../kit/until-true.ts"
import { testChildLimits } from "../../child-limits-contract.ts"
import { connectClient, type TestClient } from "../../kit/client.ts"
import { freePort } from "../../../kit/free-port.ts"
import { bundleWorker, startWorkerd, type Workerd } from "../../kit/workerd.ts"

const script = await bundleWorker()
let workerd: Workerd
let provider: RunnerProvider
let store: FleetStore
let fleet: ServedFleet
let fleetPort = 0
const clients: TestClient[] = []

const JWT_SECRET = "a secret for the tokens of people"

const startFleet = async (poolSize = 0) => {
  fleet = await serveFleet({
    poolSize,
    verifyJwt: createJwtVerifier({ secret: JWT_SECRET }, { now: Date.now, fetch }),
    hubUrl: workerd.url,
    port: fleetPort,
    provider,
    // The store of the sandboxes outlives a restart of the fleet in these tests.
    store: { ...store, close: async () => {} },
  })
}

beforeAll(async () => {
  fleetPort = freePort()
  workerd = await startWorkerd(script, {
    FLEET_URL: `http://127.0.0.1:${fleetPort}`,
    FLEET_KEY,
    HUB_JWT_SECRET: JWT_SECRET,
    HUB_GATEWAY_SECRET: "a gateway secret of the tests",
    MAX_CHILDREN: "2",
    MAX_CHILD_DEPTH: "1",
  })
  provider = runnerProvider()
  store = openSqliteStore(":memory:")
  await startFleet()
})
afterAll(async () => {
  for (const client of clients) client.close()
  await provider.stop()
  await fleet.stop()
  await store.close()
  await workerd.stop()
})

const put = (session: string, body: object = {}) =>
  fetch(`${workerd.url}/sessions/${session}`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${workerd.clientToken}` },
    body: JSON.stringify(body),
  })
const ask = (session: string, content: string) =>
  fetch(`${workerd.url}/sessions/${session}/prompt`, {
    method: "POST",
    headers: { Authorization: `Bearer ${workerd.clientToken}` },
    body: JSON.stringify({ content }),
  })
const watch = async (session: string): Promise<TestClient> => {
  const client = await connectClient(workerd.url, workerd.clientToken, { session })
  clients.push(client)
  return client
}
const textsOf = (client: TestClient, role: string): readonly string[] =>
  client
    .messages()
    .filter((message) => message.role === role)
    .map(({ parts }) => parts.map((part) => part.text ?? "").join(""))
const says = (client: TestClient, role: string, part: string) =>
  client.until(() => textsOf(client, role).some((said) => said.includes(part)), `${role}: ${part}`)
const lifeOf = async (session: string) => (await store.find(session))?.life

/** A session that a runner in a sandbox has answered. */
const answered = async (session: string) => {
  await put(session)
  const client = await watch(session)
  expect((await ask(session, "hello")).status).toBe(200)
  await says(client, "assistant", "heard: hello")
  await untilTrue(async () => (await lifeOf(session))?.phase === "running", "running sandbox")
  return client
}

describe("a session without a runner", () => {
  test("a prompt makes a sandbox, and its runner answers", async () => {
    await put("first")
    const client = await watch("first")
    expect((await ask("first", "hello")).status).toBe(200)
    await says(client, "assistant", "heard: hello")
    const [spec] = provider.specs.filter(({ session }) => session === "first")
    expect(spec).toMatchObject({
      generation: 1,
      labels: { tenant: "user:local", session: "first" },
      environment: {
        SESSION_ID: "first",
        // The page of the hub shows the terminal in a frame.
        ALLOWED_ORIGINS: workerd.url,
        DO_WS_URL: expect.stringContaining("/sessions/first/ws"),
      },
    })
    await untilTrue(() => provider.runnerOf("first")?.busy() === 0, "end of the turn")
    await untilTrue(
      async () => (await lifeOf("first"))?.phase === "running",
      "report of the connection",
    )
  })

  test("a person's work in the sandbox reaches the fleet, which keeps the sandbox awake", async () => {
    await answered("worked")
    const idleAt = async () => (await lifeOf("worked"))?.idleAt ?? 0
    await untilTrue(async () => (await idleAt()) > 0, "the end of the turn at the fleet")
    for (const report of ["first", "second"]) {
      const before = await idleAt()
      const known = Date.now()
      await untilTrue(() => Date.now() > known, "a later millisecond")
      provider.runnerOf("worked")?.send({ type: "sandbox-used" })
      await untilTrue(async () => (await idleAt()) > before, `a later time of the ${report} report`)
    }
  })

  test("after its sandbox is gone the next prompt makes another one, and the conversation says so", async () => {
    const client = await answered("lost")
    await untilTrue(() => provider.runnerOf("lost")?.busy() === 0, "end of the turn")
    const before = await lifeOf("lost")
    await provider.terminate(String(before?.ref))
    await store.change("lost", Date.now(), (row) => ({
      ...row,
      life: changedLife(row.life, { unsure: true, touched: true, saved: false }),
      dueAt: Date.now(),
    }))
    expect((await ask("lost", "again")).status).toBe(200)
    await says(client, "assistant", "heard: again")
    await says(client, "system", "The sandbox of this session is gone")
    expect((await lifeOf("lost"))?.generation).toBe(2)
  })

  test("a session whose runner another program has started gets no sandbox", async () => {
    await put("own", { runnerToken: "runner-token-of-the-operator" })
    expect((await ask("own", "hello")).status).toBe(200)
    // A later prompt of another session has reached the fleet, this one never does.
    await put("later")
    const client = await watch("later")
    await ask("later", "hi")
    await says(client, "assistant", "heard: hi")
    expect(await store.find("own")).toBeUndefined()
  })

  test("a prompt while the fleet is away is kept and answered when the fleet is back", async () => {
    await put("patient")
    const client = await watch("patient")
    await fleet.stop()
    try {
      expect((await ask("patient", "are you there?")).status).toBe(200)
      await workerd.hibernate("patient")
    } finally {
      await startFleet()
    }
    await says(client, "assistant", "heard: are you there?")
  })

  test("an ended session ends its sandbox", async () => {
    await answered("ended")
    const { ref } = (await lifeOf("ended")) ?? {}
    expect((await provider.look(String(ref))).is).toBe("ok")
    await fetch(`${workerd.url}/sessions/ended`, {
      method: "DELETE",
      headers: { Authorization: `Bearer ${workerd.clientToken}` },
    })
    await untilTrue(async () => (await lifeOf("ended"))?.phase === "ended", "end of the sandbox")
    expect((await provider.look(String(ref))).is).toBe("missing")
  })
})

describe("child sessions", () => {
  const parent = async (session: string) => {
    const client = await answered(session)
    const { request } = provider.runnerOf(session)?.uplink ?? {}
    if (!request) throw new Error("the parent has no runner")
    return { client, request }
  }

  test("a child has a sandbox of its own, works on its task and reports to its parent once", async () => {
    const { client, request } = await parent("heron")
    const stored = await fetch(`${workerd.url}/personas/builder`, {
      method: "PUT",
      headers: { Authorization: `Bearer ${workerd.clientToken}` },
      body: JSON.stringify({ content: "# Builds nests" }),
    })
    expect(stored.status).toBe(201)
    const unknown = request("spawn-child", { task: "x", workspace: "w", persona: "critic" })
    expect(await unknown.then(() => "not refused", String)).toContain(
      "persona: critic does not exist: there are builder",
    )
    const { childSessionId: child } = await request("spawn-child", {
      task: "build a nest",
      workspace: "nest",
      repoUrl: "https://github.com/birds/heron",
      ref: "main",
      persona: "builder",
      sourceIssueNumber: 5,
    })
    await says(client, "user", "heard: build a nest\n\nThe task comes from: issue #5.")
    expect(
      provider.runnerOf(child)?.frames.find(({ type }) => type === "opencode-config"),
    ).toMatchObject({ config: { instructions: ["# Persona: builder\n\n# Builds nests"] } })
    const spec = provider.specs.find(({ session }) => session === child)
    expect(spec?.environment).toMatchObject({
      SESSION_ID: child,
      PARENT_SESSION_ID: "heron",
      REPO_URL: "https://github.com/birds/heron",
      REPO_REF: "main",
    })
    const reports = textsOf(client, "user").filter((said) => said.includes("heard: build a nest"))
    expect(reports).toHaveLength(1)
    const { children } = await request("list-child-sessions", {})
    expect(children).toMatchObject([{ id: child, title: "nest", status: "running" }])
    expect(await request("terminate-child", { childSessionId: child })).toMatchObject({
      success: true,
    })
    await untilTrue(
      async () => (await lifeOf(child))?.phase === "ended",
      "end of the child's sandbox",
    )
    expect(provider.runnerOf(child)).toBeUndefined()
  })

  test("number and depth of children are limited, and a path of a machine is not a repository", async () => {
    const { request } = await parent("stork")
    const spawn = (task: string) => request("spawn-child", { task, workspace: task })
    const refusal = (asked: Promise<unknown>) => asked.then(() => "not refused", String)
    expect(
      await refusal(request("spawn-child", { task: "x", workspace: "w", repoUrl: "file:///etc" })),
    ).toContain("repoUrl")
    const one = await spawn("wait: one")
    await spawn("wait: two")
    expect(await refusal(spawn("wait: three"))).toContain("2 child sessions are running already")
    await untilTrue(
      () => provider.runnerOf(one.childSessionId) !== undefined,
      "runner of the child",
    )
    const grandchild = provider
      .runnerOf(one.childSessionId)
      ?.uplink.request("spawn-child", { task: "deeper", workspace: "w" })
    expect(await refusal(grandchild ?? Promise.resolve())).toContain("cannot start child sessions")
  })

  test("children end with their parent", async () => {
    const { request } = await parent("crane")
    for (const task of ["one", "two"]) await request("spawn-child", { task, workspace: task })
    const { children } = await request("list-child-sessions", {})
    const ids = children
      .filter((child) => (child as { status?: string }).status === "running")
      .map((child) => String((child as { id?: string }).id))
    expect(ids).toHaveLength(2)
    await fetch(`${workerd.url}/sessions/crane`, {
      method: "DELETE",
      headers: { Authorization: `Bearer ${workerd.clientToken}` },
    })
    for (const id of ["crane", ...ids])
      await untilTrue(async () => (await lifeOf(id))?.phase === "ended", `end of ${id}`)
    expect(ids.map((id) => provider.runnerOf(id))).toEqual([undefined, undefined])
  })
})

testChildLimits("Durable Objects", () => ({
  parent: async (session) => {
    await answered(session)
    const runner = provider.runnerOf(session)
    if (!runner) throw new Error("the parent has no runner")
    return runner
  },
  runnerOf: provider.runnerOf,
}))

describe("calls between hub and fleet", () => {
  const callHub = async (session: string, call: string, body: object, key = FLEET_KEY) =>
    fetch(
      await signedPost(key, `${workerd.url}/fleet/sessions/${session}/${call}`, body, Date.now()),
    )

  test("a call without a valid signature is refused on both sides, and a valid one works once", async () => {
    await put("guarded")
    const note = { id: "n1", text: "a line of the fleet" }
    const unsigned = await fetch(`${workerd.url}/fleet/sessions/guarded/note`, {
      method: "POST",
      body: JSON.stringify(note),
    })
    expect(unsigned.status).toBe(401)
    expect(
      (await callHub("guarded", "note", note, "another key with more than 32 letters")).status,
    ).toBe(401)
    const url = `${workerd.url}/fleet/sessions/guarded/note`
    const { headers } = await signedPost(FLEET_KEY, url, note, Date.now())
    const send = () => fetch(url, { method: "POST", headers, body: JSON.stringify(note) })
    expect((await send()).status).toBe(200)
    // The object has lost its memory; the number is stored.
    await workerd.hibernate("guarded")
    expect((await send()).status).toBe(401)
    expect((await callHub("guarded", "fly", {})).status).toBe(404)
    const client = await watch("guarded")
    expect(textsOf(client, "system")).toEqual(["a line of the fleet"])

    const report = {
      session: "forged",
      owner: "user:local",
      activity: {
        generation: 0,
        connected: false,
        working: 0,
        queued: 1,
        hasEnded: false,
        hasOtherRunner: false,
      },
    }
    const target = `${fleet.url}/api/hub/activity`
    const forged = await signedPost(
      "another key with more than 32 letters",
      target,
      report,
      Date.now(),
    )
    expect((await fetch(forged)).status).toBe(401)
    const old = await signedPost(FLEET_KEY, target, report, Date.now() - 600_000)
    expect((await fetch(old)).status).toBe(401)
    expect(await store.find("forged")).toBeUndefined()
    expect(forged.headers.get(SIGNATURE_HEADER)).not.toBeNull()
  })

  test("a late call of an earlier generation does not shut the present runner out", async () => {
    await put("admitted")
    const admit = (generation: number) =>
      callHub("admitted", "admit", { generation, tokenHash: "a".repeat(64) })
    expect((await admit(3)).status).toBe(200)
    expect((await admit(3)).status).toBe(409)
    expect((await admit(2)).status).toBe(409)
    expect(await (await admit(4)).json()).toMatchObject({ gatewayKey: expect.any(String) })
  })

  test("a sandbox that a caller of the fleet wants runs when its runner has connected, without a prompt", async () => {
    const response = await fetch(`${fleet.url}/api/threads/C2:1/resolve?wait=1`, {
      method: "POST",
      headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
    })
    const made = (await response.json()) as Record<string, string>
    expect(made).toMatchObject({ status: "running", generation: 1 })
    const link = await fetch(`${workerd.url}/sessions/${made["sessionId"]}/links`, {
      method: "POST",
      headers: { Authorization: `Bearer ${workerd.clientToken}` },
      body: JSON.stringify({ to: "terminal" }),
    })
    expect(((await link.json()) as { url: string }).url).toStartWith(
      `https://${made["providerSandboxId"]}.sandboxes.example/terminal/?token=eyJ`,
    )
  })

  test("a session whose record the fleet has forgotten goes on with the next generation", async () => {
    const call = async (method: string, path: string) => {
      const headers = { authorization: `Bearer ${OPERATOR_TOKEN}` }
      const response = await fetch(`${fleet.url}${path}`, { method, headers })
      return (await response.json()) as Record<string, unknown>
    }
    const { sessionId } = await call("POST", "/api/threads/C3:1/resolve?wait=1")
    await call("DELETE", `/api/sandbox/${String(sessionId)}`)
    const again = await call("POST", "/api/threads/C3:1/resolve?wait=1")
    expect(again).toMatchObject({ sessionId, status: "running", generation: 2 })
  })

  test("a session of a thread is made by the fleet in the hub, answered, and ended for good", async () => {
    const call = async (path: string, body: object = {}) => {
      const response = await fetch(`${fleet.url}${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
        body: JSON.stringify(body),
      })
      return (await response.json()) as { readonly sessionId: string; readonly status: string }
    }
    const { sessionId } = await call("/api/threads/C1:1/prompt", {
      message: "ping",
      messageId: "m",
    })
    const client = await watch(sessionId)
    await says(client, "assistant", "heard: ping")
    const ended = await call(`/api/sandbox/${sessionId}/terminate?wait=1`)
    expect(ended.status).toBe("terminated")
    expect((await ask(sessionId, "more")).status).toBe(409)
  })
})

describe("the people of the hub at a fleet elsewhere", () => {
  const tokenOf = (sub: string, secret = JWT_SECRET) =>
    new SignJWT({ scope: "sessions:admin" })
      .setProtectedHeader({ alg: "HS256" })
      .setSubject(sub)
      .setExpirationTime("1h")
      .sign(new TextEncoder().encode(secret))
  const call = async (method: string, url: string, token: string, body?: object) => {
    const response = await fetch(url, {
      method,
      headers: { authorization: `Bearer ${token}` },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }

  test("a person's token counts at the fleet as it does at the hub, for the person's own sandboxes", async () => {
    const alice = await tokenOf("alice")
    const made = await call("POST", `${fleet.url}/api/threads/hers/resolve?wait=1`, alice)
    const id = String(made.body["sessionId"])
    expect(made).toMatchObject({ status: 200, body: { status: "running" } })
    expect((await call("GET", `${workerd.url}/sessions/${id}`, alice)).status).toBe(200)
    const path = `${fleet.url}/api/sandbox/${id}/status`
    expect((await call("GET", path, alice)).status).toBe(200)
    expect((await call("GET", path, await tokenOf("bob"))).status).toBe(404)
    const forged = await tokenOf("alice", "another secret with more than 32 letters")
    expect((await call("GET", path, forged)).status).toBe(401)
    expect((await call("GET", `${fleet.url}/api/sandboxes`, alice)).status).toBe(404)
  })

  test("a sandbox that was started ahead answers a person's first prompt, and only that person has it", async () => {
    await fleet.stop()
    await startFleet(1)
    onTestFinished(async () => {
      await fleet.stop()
      await startFleet()
    })
    const ready = async () =>
      (await store.pooled()).find(({ kind, life }) => kind === "pool" && isReady(life))?.id
    await untilTrue(async () => (await ready()) !== undefined, "a sandbox in the pool")
    const waiting = (await ready()) ?? ""
    const [alice, bob] = [await tokenOf("alice"), await tokenOf("bob")]
    const hubPath = `${workerd.url}/sessions/${waiting}`
    expect((await call("GET", hubPath, alice)).status).toBe(404)
    const prompt = { message: "ping", messageId: "m" }
    const sent = await call("POST", `${fleet.url}/api/threads/new/prompt`, alice, prompt)
    expect(sent.body).toMatchObject({ sessionId: waiting })
    await says(await watch(waiting), "assistant", "heard: ping")
    // The object loses its memory: its config and its owner are read again.
    await workerd.restart()
    expect((await call("GET", hubPath, alice)).status).toBe(200)
    expect((await call("GET", hubPath, bob)).status).toBe(404)
    const hand = await signedPost(
      FLEET_KEY,
      `${workerd.url}/fleet/sessions/${waiting}/hand`,
      { owner: "user:bob" },
      Date.now(),
    )
    expect((await fetch(hand)).status).toBe(409)
  })
})
