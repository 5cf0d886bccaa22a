/** The reports of the gateway: /health, /ready and /metrics. The tests share one gateway, whose components start in each test. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import {
  createComponentStates,
  isReady,
  type Components,
} from "../../../src/runner/gateway/components.ts"
import { API_TOKEN, logIn, makeToken, startTestGateway, type TestGateway } from "./kit.ts"
import { createLinkMetrics } from "../../../src/runner/gateway/link-metrics.ts"

let gateway: TestGateway
let backend: Bun.Server<undefined>
let components: Components = {}

beforeAll(() => {
  backend = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("12345") })
  gateway = startTestGateway({
    backends: { vscode: backend.port ?? 0, vnc: 2, ttyd: 3 },
    components: () => components,
    gauges: () => [
      {
        name: "of_another_component",
        help: "h",
        type: "gauge",
        values: [{ value: 7, labels: { a: 'b"c' } }],
      },
    ],
  })
})
beforeEach(() => {
  components = starting
})
afterAll(async () => {
  await gateway.stop()
  await backend.stop(true)
})

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}${path}`, { headers })
const token = { authorization: `Bearer ${API_TOKEN}` }
const starting: Components = {
  link: { state: "ready", since: 0, essential: true },
  agent: {
    state: "starting",
    since: 1000,
    why: "OpenCode exited with code 1",
    restarts: 2,
    essential: true,
  },
}

test("/health is the same for every caller and returns no details", async () => {
  for (const headers of [{}, token]) {
    const response = await get("/health", headers)
    expect([response.status, await response.text()]).toEqual([200, '{"ok":true}'])
  }
  expect((await fetch(`${gateway.url}/health`, { method: "POST" })).status).toBe(405)
})

test("/health?verbose returns the components to a caller with a token", async () => {
  expect((await get("/health?verbose")).status).toBe(401)
  expect((await get("/health?a&verbose=1")).status).toBe(401)
  const response = await get("/health?verbose", token)
  expect(await response.json()).toMatchObject({
    ok: true,
    ready: false,
    parts: { agent: { restarts: 2 } },
  })
})

describe("/ready", () => {
  test("/ready is 503 with the reason while prompts cannot run", async () => {
    const response = await get("/ready", { authorization: `Bearer ${makeToken()}` })
    expect(response.status).toBe(503)
    expect(await response.json()).toMatchObject({
      ready: false,
      parts: {
        agent: {
          state: "starting",
          why: "OpenCode exited with code 1",
          since: "1970-01-01T00:00:01.000Z",
        },
      },
    })
  })
  test("/ready is 200 when every essential component is ready", async () => {
    components = {
      ...starting,
      agent: { state: "ready", since: 0, essential: true },
      screen: { state: "failed", since: 0, essential: false },
    }
    expect((await get(`/ready?token=${makeToken()}`)).status).toBe(200)
  })
  test("/ready and /metrics refuse a request that has only a cookie", async () => {
    const cookie = await logIn(gateway)
    expect((await get("/ready", { cookie })).status).toBe(401)
    expect((await get("/metrics", { cookie })).status).toBe(401)
  })
})

test("an unexpected error is 500, does not reveal its message, and the gateway continues", async () => {
  const broken = startTestGateway({
    components: () => {
      throw new Error("a message from inside")
    },
  })
  const response = await fetch(`${broken.url}/ready`, { headers: token })
  expect(response.status).toBe(500)
  expect(await response.text()).not.toContain("inside")
  expect(broken.log.join()).toContain("a message from inside")
  expect((await fetch(`${broken.url}/health`)).status).toBe(200)
  await broken.stop()
})

test("a component's since changes only with its state, and its restarts are counted", () => {
  let now = 1
  const states = createComponentStates(["agent"], () => now)
  expect(isReady(states.read())).toBe(false)
  states.set("agent", "ready")
  now = 2
  states.set("agent", "ready")
  expect(states.read()["agent"]).toEqual({ state: "ready", since: 1, restarts: 0, essential: true })
  states.set("agent", "starting", "it went away")
  now = 3
  states.set("agent", "ready")
  expect(states.read()["agent"]).toEqual({ state: "ready", since: 3, restarts: 1, essential: true })
})

test("/metrics has requests and bytes by route, and the metrics of other components", async () => {
  const cookie = await logIn(gateway)
  for (let time = 0; time < 3; time += 1) await (await get("/vscode/", { cookie })).text()
  await get("/vscode/?token=bad")
  await get("/nowhere")
  const response = await get("/metrics", token)
  const text = await response.text()
  expect(response.headers.get("content-type")).toContain("text/plain")
  expect(text).toContain('sandpiper_http_requests_total{route="vscode",status="200"} 3')
  expect(text).toContain('sandpiper_http_requests_total{route="none",status="404"} 1')
  expect(text).toMatch(/sandpiper_http_bytes_total\{route="vscode",direction="out"\} [1-9]\d+/)
  expect(text).toMatch(/sandpiper_auth_failures_total [1-9]/)
  expect(text).toMatch(/process_resident_memory_bytes \d{7,}/)
  expect(text).toMatch(/sandpiper_gateway_sockets \d/)
  expect(text).toContain('of_another_component{a="b\\"c"} 7')
  for (const line of text.trim().split("\n")) {
    expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+="([^"\\]|\\.)*",?)*\})? [\d.e+-]+)$/)
  }
})

test("the link's metrics count turns by how they end, from the frames that are sent", () => {
  const metrics = createLinkMetrics()
  const turn = { turnId: "t", messageId: "m" }
  metrics.onFrameSent({ type: "message.finalize", ...turn, reason: "end_turn" })
  metrics.onFrameSent({ type: "message.finalize", ...turn, reason: "error" })
  metrics.onFrameSent({ type: "message.finalize", ...turn, reason: "end_turn" })
  metrics.onEventStreamLost()
  const link = {
    framesOut: 0,
    bytesOut: 0,
    framesIn: 0,
    bytesIn: 0,
    resent: 0,
    coalesced: 0,
    depth: 5,
    depthBytes: 6,
    reconnects: 0,
    unexpectedResults: 0,
    ackLagMs: 8,
  }
  const value = (name: string) => metrics.read(link, 4).find((gauge) => gauge.name === name)?.values
  expect(value("sandpiper_turns_total")).toEqual([
    { value: 2, labels: { outcome: "end_turn" } },
    { value: 1, labels: { outcome: "error" } },
  ])
  expect(value("sandpiper_outbox_frames")).toEqual([{ value: 5 }])
  expect(value("sandpiper_ack_lag_ms")).toEqual([{ value: 8 }])
  expect(value("sandpiper_sse_reconnects_total")).toEqual([{ value: 1 }])
  expect(value("sandpiper_opencode_restarts_total")).toEqual([{ value: 4 }])
})
