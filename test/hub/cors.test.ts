/** A web page of an allowed origin uses the hub's HTTP API; pages of other origins cannot. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { CLIENT_TOKEN, startTestHub, type TestHub } from "./kit/hub.ts"

const PAGE = "https://app.example"
let hub: TestHub
beforeAll(async () => {
  hub = await startTestHub({ allowedOrigins: [PAGE] })
})
afterAll(() => hub.stop())

const call = (path: string, origin: string, init: RequestInit = {}) =>
  fetch(`${hub.hub.url}${path}`, {
    ...init,
    headers: { origin, Authorization: `Bearer ${CLIENT_TOKEN}` },
  })

test("the preflight of an allowed origin is answered without a token, that of another is not", async () => {
  const asked = await call("/sessions/s1/prompt", PAGE, { method: "OPTIONS" })
  expect(asked.status).toBe(204)
  expect(asked.headers.get("access-control-allow-origin")).toBe(PAGE)
  expect(asked.headers.get("access-control-allow-headers")).toContain("authorization")
  const other = await call("/sessions/s1/prompt", "https://evil.example", { method: "OPTIONS" })
  expect(other.headers.get("access-control-allow-origin")).toBeNull()
  expect(other.status).toBe(404)
})

test("responses, refusals and event streams can be read by an allowed origin only", async () => {
  const list = await call("/sessions", PAGE)
  expect(list.status).toBe(200)
  expect(list.headers.get("access-control-allow-origin")).toBe(PAGE)
  expect(list.headers.get("vary")).toContain("Origin")
  const refused = await fetch(`${hub.hub.url}/sessions`, { headers: { origin: PAGE } })
  expect(refused.status).toBe(401)
  expect(refused.headers.get("access-control-allow-origin")).toBe(PAGE)
  const events = await call("/sessions/s1/events", PAGE)
  expect(events.headers.get("access-control-allow-origin")).toBe(PAGE)
  const { value } = (await events.body?.getReader().read()) ?? {}
  expect(new TextDecoder().decode(value)).toContain("snapshot")
  const other = await call("/sessions", "https://evil.example")
  expect(other.status).toBe(403)
  expect(other.headers.get("access-control-allow-origin")).toBeNull()
})
