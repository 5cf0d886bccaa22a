/**
 * The gateway in the runner: API requests and tunnels reach the session agent over the link. The tests share one runner and session
 * agent; no tunnel is left after a test.
 */
import { Database } from "bun:sqlite"
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { freePort } from "../../kit/free-port.ts"
import { startRunner, type TestRunner } from "../../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../../kit/session-agent.ts"

let agent: TestSessionAgent
let runner: TestRunner
let token = ""

beforeAll(async () => {
  agent = startTestSessionAgent()
  // OpenCode is not needed here; /ready must report that it does not start.
  runner = await startRunner(agent, { OPENCODE_BIN: "/bin/false" })
  const db = new Database(join(runner.sandbox.stateDir, "session/state.db"), { readonly: true })
  const fact = db
    .query<{ value: string }, []>("SELECT value FROM facts WHERE name = 'agent.api-token'")
    .get()
  token = fact?.value.split(" ")[1] ?? ""
  db.close()
  await agent.until(agent.isConnected, "a link")
})

afterEach(async () => {
  for (const name of ["web", "later", "counted"]) await call("DELETE", `/api/tunnels/${name}`)
})

afterAll(async () => {
  await runner.stop()
  await agent.stop()
})

const call = (method: string, path: string, body?: unknown) =>
  fetch(`${runner.gatewayUrl}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}` },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })

test("a tool's request is sent to the session agent, and its result is the response", async () => {
  const reply = call("GET", "/api/child-sessions")
  const { requestId } = await agent.frame("list-child-sessions")
  agent.say({ type: "list-child-sessions-result", requestId, children: [{ id: "c1" }] })
  expect(await (await reply).json()).toEqual({ children: [{ id: "c1" }] })
})

test("an error of the session agent is 502 with its message", async () => {
  const reply = call("GET", "/api/session-status?sessionId=s2")
  const { requestId } = await agent.frame("get-session-status")
  agent.say({ type: "get-session-status-result", requestId, error: "no such session" })
  const response = await reply
  expect(response.status).toBe(502)
  expect(await response.json()).toMatchObject({ error: "no such session", code: "refused" })
})

const announced = (name: string) =>
  agent.frame("tunnels", ({ tunnels }) => tunnels.length === 1 && tunnels[0]?.name === name)

test("tunnels are announced when they change, when one is deleted, and on every new connection", async () => {
  const tunnel = { name: "web", port: 3123, protocol: "auto" as const, path: "/t/web" }
  await call("POST", "/api/tunnels", { name: "web", port: 3123 })
  await announced("web")
  const before = agent.frames.length
  agent.close(1001, "going away")
  const again = await agent.frame("tunnels", () => true, before)
  expect(again.tunnels).toEqual([{ ...tunnel, listening: expect.any(Boolean) }])
  agent.say({ type: "tunnel-delete", name: "web" })
  await agent.frame("tunnels", ({ tunnels }) => tunnels.length === 0, before)
})

test("the answer to a new tunnel says whether a server listens on its port", async () => {
  const port = freePort()
  const register = async (): Promise<unknown> => {
    const response = await call("POST", "/api/tunnels", { name: "later", port })
    return response.json()
  }
  const tunnel = { name: "later", port, protocol: "auto", path: "/t/later" }
  expect(await register()).toEqual({ ok: true, tunnel: { ...tunnel, listening: false } })
  const server = Bun.serve({ hostname: "127.0.0.1", port, fetch: () => new Response("here") })
  expect(await register()).toEqual({ ok: true, tunnel: { ...tunnel, listening: true } })
  await server.stop(true)
})

test("/ready is 503 with the reason when OpenCode does not start", async () => {
  const response = await call("GET", "/ready")
  expect(response.status).toBe(503)
  expect(await response.json()).toMatchObject({
    ready: false,
    parts: { link: { state: "ready", essential: true }, agent: { essential: true } },
  })
})

test("/metrics has the metrics of the link", async () => {
  expect((await call("POST", "/api/tunnels", { name: "counted", port: 3124 })).status).toBe(200)
  await announced("counted")
  const from = agent.frames.length
  agent.close(1001, "going away")
  // Announced on every new connection.
  await agent.frame("tunnels", () => true, from)
  const text = await (await call("GET", "/metrics")).text()
  expect(text).toMatch(/sandpiper_link_reconnects_total [1-9]/)
  expect(text).toMatch(/sandpiper_outbox_frames \d/)
  expect(text).toContain('sandpiper_http_requests_total{route="api",status="200"}')
})

test("the log does not contain the API token", () => {
  expect(token).toHaveLength(64)
  expect(runner.log.join("\n")).not.toContain(token)
})
