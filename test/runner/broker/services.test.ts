/** Which calls of MCP servers and of Parallel the key broker forwards, and with which credentials. */
import { afterEach, expect, test } from "bun:test"
import { startKeyBroker } from "../../../src/runner/broker/key-broker.ts"
import { type Service, serviceTarget } from "../../../src/runner/broker/services.ts"
import { silentLog } from "../../kit/log.ts"

const mcp = (url: string): Service => ({ url, headers: { "x-key": "secret" }, calls: "mcp" })
const parallel: Service = {
  url: "https://api.example/",
  headers: { "x-api-key": "secret" },
  calls: "parallel",
}

test.each([
  [mcp("https://a.example/mcp"), "POST", "/mcp", "", "https://a.example/mcp"],
  [mcp("https://a.example/mcp?t=1"), "GET", "/mcp", "?s=2", "https://a.example/mcp?t=1&s=2"],
  [
    mcp("https://a.example/x/sse"),
    "POST",
    "/x/messages",
    "?id=1",
    "https://a.example/x/messages?id=1",
  ],
  [parallel, "POST", "/v1/search", "", "https://api.example/v1/search"],
  [
    parallel,
    "GET",
    "/v1/tasks/runs/r-1/result",
    "",
    "https://api.example/v1/tasks/runs/r-1/result",
  ],
])("a call of a tool is forwarded to its service: %#", (service, method, path, search, url) => {
  expect(serviceTarget(service, method, path, search)).toEqual({ ok: true, url })
})

test.each([
  [mcp("https://a.example/mcp"), "POST", "/admin/keys"],
  [mcp("https://a.example/mcp"), "PUT", "/mcp"],
  [mcp("https://a.example/mcp"), "POST", "/mcp/../admin"],
  [mcp("https://a.example/x/sse"), "POST", "/messages"],
  [mcp("https://a.example/x/sse"), "GET", "/x/messages"],
  [parallel, "GET", "/v1/search"],
  [parallel, "DELETE", "/v1/tasks/runs/r-1"],
  [parallel, "POST", "/v1/keys"],
])("a call that no tool makes is refused: %#", (service, method, path) => {
  expect(serviceTarget(service, method, path, "")).toMatchObject({ ok: false })
})

const stops: (() => unknown)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

test("the broker replaces its own token by the service's header, and an error does not repeat the credential", async () => {
  const seen: Record<string, string>[] = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) => {
      seen.push(Object.fromEntries(request.headers))
      return new Response(`bad key ${request.headers.get("authorization")}`, { status: 401 })
    },
  })
  const broker = startKeyBroker({ token: "token-of-the-broker", log: silentLog })
  stops.push(() => server.stop(true), broker.stop)
  const url = `${server.url.origin}/mcp`
  const headers = { authorization: "Bearer credential-of-the-server" }
  broker.setUpstreams(new Map(), new Map([["mcp:one", { url, headers, calls: "mcp" }]]))
  const call = (name: string, token: string) =>
    fetch(`http://127.0.0.1:${broker.port}/mcp`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "x-sandpiper-service": name, "x-own": "kept" },
    })
  const response = await call("mcp:one", "token-of-the-broker")
  expect(response.status).toBe(401)
  expect(await response.text()).toBe("bad key [key]")
  expect(seen).toHaveLength(1)
  expect(seen[0]).toMatchObject({ ...headers, "x-own": "kept" })
  expect(JSON.stringify(seen)).not.toContain("token-of-the-broker")
  expect(JSON.stringify(seen)).not.toContain("x-sandpiper-service")
  expect((await call("mcp:one", "another-token")).status).toBe(401)
  expect((await call("mcp:two", "token-of-the-broker")).status).toBe(404)
  expect(seen).toHaveLength(1)
})
