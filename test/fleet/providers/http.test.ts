/** What the answers of a provider's API mean, against a real server that answers, delays, cuts and redirects. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type Server } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createHttpApi, type HttpApi, retryAfterMs } from "../../../src/fleet/providers/http.ts"
import { redactError } from "../../../src/fleet/core/redact.ts"

const KEY = "key-of-the-provider-0123456789"
const directory = mkdtempSync(join(tmpdir(), "provider-http-"))
const socket = join(directory, "api.sock")
let api: HttpApi
let overSocket: HttpApi
const servers: { readonly stop: () => void }[] = []
let redirected = 0

const answer = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  typeof body === "string"
    ? new Response(body, { status, headers: { "content-type": "text/html", ...headers } })
    : Response.json(body, { status, headers })

const handle = async (request: Request): Promise<Response> => {
  const { pathname, search, origin } = new URL(request.url)
  switch (pathname) {
    case "/echo":
      return answer(200, {
        key: request.headers.get("x-api-key"),
        search,
        body: await request.text(),
      })
    case "/gone":
      return answer(404, { message: "no such sandbox" })
    case "/gone-by-proxy":
      return answer(404, "<html>nothing here</html>")
    case "/busy":
      return answer(429, { message: "slow down" }, { "retry-after": "7" })
    case "/broken":
      return answer(500, { error: `failed with ${KEY} and Bearer abcdefghijklmnop` })
    case "/bad":
      return answer(400, { error: { message: "no such image" } })
    case "/taken":
      return answer(409, { message: "name taken" })
    case "/moved":
      return new Response(null, { status: 302, headers: { location: `${origin}/target` } })
    case "/target":
      redirected += 1
      return answer(200, {})
    case "/odd":
      return answer(200, "not json")
    default:
      return new Promise<Response>(() => {})
  }
}

const cutter = (): Promise<Server> =>
  new Promise((resolve) => {
    const server = createServer((connection) => {
      connection.once("data", () => {
        connection.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
      })
    })
    server.listen(0, "127.0.0.1", () => resolve(server))
  })

beforeAll(() => {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: handle, idleTimeout: 0 })
  const unixServer = Bun.serve({ unix: socket, fetch: handle })
  servers.push({ stop: () => void server.stop(true) }, { stop: () => void unixServer.stop(true) })
  const options = { headers: () => ({ "x-api-key": KEY }), secrets: () => [KEY] }
  api = createHttpApi({ base: server.url.origin, ...options })
  overSocket = createHttpApi({ base: "http://docker", unix: socket, ...options })
})
afterAll(() => {
  for (const server of servers) server.stop()
  rmSync(directory, { recursive: true, force: true })
})

const rules = { read: ({ json }: { readonly json: unknown }) => json }
const get = (path: string, more = {}) => api.call({ method: "GET", path, ...more }, rules)

describe("a call to the API of a sandbox provider", () => {
  test("a successful answer is ok, with the key in the header and the given query", async () => {
    const result = await api.call(
      { method: "POST", path: "/echo", query: { a: "b c", none: undefined }, json: { x: 1 } },
      rules,
    )
    expect(result).toEqual({ is: "ok", value: { key: KEY, search: "?a=b+c", body: '{"x":1}' } })
  })

  test("the same call works over a unix socket", async () => {
    const result = await overSocket.call({ method: "GET", path: "/echo" }, rules)
    expect(result).toMatchObject({ is: "ok", value: { key: KEY } })
  })

  test("a 404 of the API is missing, a 404 with a page of a proxy is in doubt", async () => {
    expect(await get("/gone")).toEqual({ is: "missing" })
    expect(await get("/gone-by-proxy")).toMatchObject({ is: "unknown" })
  })

  test("a 429 is in doubt and says when to ask again", async () => {
    expect(await get("/busy")).toEqual({
      is: "unknown",
      why: "GET /busy: 429 slow down",
      afterMs: 7000,
    })
  })

  test("a call without a value is ok with any body", async () => {
    expect(await api.done({ method: "DELETE", path: "/odd" })).toEqual({
      is: "ok",
      value: undefined,
    })
    expect(await api.done({ method: "DELETE", path: "/gone" })).toEqual({ is: "missing" })
  })

  test("a bad request is refused with the sentence of the API", async () => {
    expect(await get("/bad")).toEqual({ is: "refused", why: "GET /bad: 400 no such image" })
  })

  test("a conflict is in doubt unless the provider's rule calls it success", async () => {
    expect(await get("/taken")).toMatchObject({ is: "unknown" })
    const done = { read: () => "done", isDone: ({ status }: { status: number }) => status === 409 }
    expect(await api.call({ method: "GET", path: "/taken" }, done)).toEqual({
      is: "ok",
      value: "done",
    })
  })

  test("a 500 is in doubt, and its text contains neither the key nor a bearer token", async () => {
    const result = await get("/broken")
    expect(result).toEqual({
      is: "unknown",
      why: "GET /broken: 500 failed with [redacted] and Bearer [redacted]",
    })
  })

  test("a redirect is not followed and is in doubt", async () => {
    expect(await get("/moved")).toMatchObject({ is: "unknown" })
    expect(redirected).toBe(0)
  })

  test("an answer that the provider's rule does not understand is in doubt", async () => {
    const result = await api.call({ method: "GET", path: "/odd" }, { read: () => undefined })
    expect(result).toMatchObject({ is: "unknown" })
  })

  test("a call without an answer is in doubt after its deadline", async () => {
    expect(await get("/hangs", { deadlineMs: 50 })).toEqual({
      is: "unknown",
      why: "GET /hangs: no answer in time",
    })
    expect(await get("/hangs", { limit: AbortSignal.timeout(50) })).toMatchObject({ is: "unknown" })
  })

  test("a connection that is refused or cut in the answer is in doubt", async () => {
    const server = await cutter()
    const address = server.address()
    const port = typeof address === "object" && address ? address.port : 0
    const cut = createHttpApi({ base: `http://127.0.0.1:${port}`, secrets: () => [] })
    expect(await cut.call({ method: "GET", path: "/x" }, rules)).toMatchObject({ is: "unknown" })
    await new Promise((resolve) => server.close(resolve))
    expect(await cut.call({ method: "GET", path: "/x" }, rules)).toMatchObject({ is: "unknown" })
  })

  test("secrets of one call are removed from its error", async () => {
    const call = { method: "POST", path: "/broken", secrets: ["failed with"] } as const
    const result = await api.call(call, rules)
    expect(result.is === "unknown" && result.why).not.toContain("failed with")
  })
})

describe("Retry-After", () => {
  test("seconds and dates are understood, other texts are ignored, long waits are bounded", () => {
    expect(retryAfterMs("3", 0)).toBe(3000)
    expect(retryAfterMs("Thu, 01 Jan 1970 00:00:10 GMT", 4000)).toBe(6000)
    expect(retryAfterMs("Thu, 01 Jan 1970 00:00:10 GMT", 20_000)).toBe(0)
    expect(retryAfterMs("soon", 0)).toBeUndefined()
    expect(retryAfterMs(null, 0)).toBeUndefined()
    expect(retryAfterMs("999999", 0)).toBe(600_000)
  })
})

describe("the text of a provider's error", () => {
  test("keys are removed by their form, also those that the program does not know", () => {
    const keys = [
      "sk-ant-api03-abcdefgh",
      "ghp_abcdefghij",
      "e2b_0123456789abcdef",
      "ak-AbCdEfGhIjKlMnOpQr",
    ]
    for (const key of keys) expect(redactError(`bad key ${key}!`, [])).toBe("bad key [redacted]!")
    expect(redactError("https://x-access-token:abc@github.com/a", [])).not.toContain("abc@")
  })

  test("a long text is cut after the secrets were removed", () => {
    const text = `${"x".repeat(2040)}${KEY}`
    const clean = redactError(text, [KEY])
    expect(clean.length).toBeLessThan(2100)
    expect(clean).not.toContain(KEY.slice(0, 8))
  })
})
