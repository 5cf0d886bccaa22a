/** The page's host over real requests: who may log in, who reaches the session agent, and what the sandbox's hosts serve. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { brotliCompressSync, gzipSync } from "node:zlib"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { issueLoginCode, openPageLogins } from "../../../../src/hub/page-logins.ts"
import { pageRoutes } from "../../../../src/lib/page/page-routes.ts"
import { routes } from "../../../../src/runner/gateway/routes.ts"
import {
  api,
  logIn,
  makeToken,
  speak,
  startTestGateway,
  statusOf,
  type TestGateway,
} from "../kit.ts"

const HUB_TOKEN = "the-session-agents-own-token"
const PAGE = "sandpiper.localhost"
let state = ""
let hub: Bun.Server<unknown>
let gateway: TestGateway
const seen: { url: string; headers: Record<string, string> }[] = []

const text = "<!doctype html><title>the page</title>"
const fileOf = (content: string, type: string, isImmutable: boolean) => ({
  type,
  hash: Bun.hash(content).toString(16),
  isImmutable,
  br: new Uint8Array(brotliCompressSync(content)),
  gz: new Uint8Array(gzipSync(content)),
})

const startDoor = (): TestGateway =>
  startTestGateway({
    sandboxOrigin: "http://*--box.sandpiper.localhost",
    backends: { vscode: hub.port ?? 0, vnc: 2, ttyd: 3 },
    page: {
      page: `http://${PAGE}`,
      tunnels: "http://*--box.sandpiper.localhost",
      files: new Map([
        ["index.html", fileOf(text, "text/html; charset=utf-8", false)],
        ["assets/main-1.js", fileOf("1", "text/javascript", true)],
        ["favicon.svg", fileOf("<svg/>", "image/svg+xml", false)],
        ["terminal/index.html", fileOf("terminal", "text/html", false)],
      ]),
      logins: openPageLogins(state, Date.now),
      hub: { port: hub.port ?? 0, authorization: `Bearer ${HUB_TOKEN}` },
    },
  })

beforeAll(() => {
  state = mkdtempSync(join(tmpdir(), "page-door-"))
  hub = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request, server) => {
      seen.push({ url: request.url, headers: Object.fromEntries(request.headers) })
      if (server.upgrade(request, { data: undefined })) return undefined
      if (new URL(request.url).pathname === "/events") {
        const events = ["data: one\n\n", "data: two\n\n"]
        const stream = new ReadableStream({
          pull: async (controller) => {
            const event = events.shift()
            if (event === undefined) return controller.close()
            // Sleep: the session agent writes its events one after the other.
            await Bun.sleep(20)
            controller.enqueue(event)
          },
        })
        return new Response(stream, { headers: { "content-type": "text/event-stream" } })
      }
      return Response.json({ ok: true })
    },
    websocket: { message: (socket, message) => void socket.send(`echo ${String(message)}`) },
  })
  gateway = startDoor()
})
afterAll(async () => {
  await gateway.stop()
  await hub.stop(true)
  rmSync(state, { recursive: true, force: true })
})

const at = (
  host: string,
  path: string,
  init: RequestInit = {},
  to: TestGateway = gateway,
): Promise<Response> =>
  fetch(`${to.url}${path}`, {
    redirect: "manual",
    ...init,
    headers: { host: `${host}:${to.port}`, ...(init.headers as Record<string, string>) },
  })
const get = (path: string, headers: Record<string, string> = {}) => at(PAGE, path, { headers })

const post = (body: unknown, headers: Record<string, string> = {}, to: TestGateway = gateway) => {
  const init = {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  }
  return at(PAGE, "/login", init, to)
}

const login = async () => {
  const response = await post({ code: issueLoginCode(state, Date.now()) })
  expect(response.status).toBe(200)
  const { key } = (await response.json()) as { key: string }
  const setCookie = response.headers.get("set-cookie") ?? ""
  return { cookie: setCookie.split(";")[0] ?? "", key, setCookie }
}

const codeOf = async (response: Response) => ((await response.json()) as { code: string }).code

describe("hosts", () => {
  test("a name that is neither the page nor the sandbox is refused with 421, for every path", async () => {
    for (const path of ["/", "/health", "/api/tunnels", "/vscode/", "/hub/sessions", "/login"]) {
      expect((await at("evil.example", path)).status).toBe(421)
      expect((await at("x.sandpiper.localhost", path)).status).toBe(421)
    }
  })

  test("no row of the sandbox is on the page's host", async () => {
    for (const { path } of routes.filter((row) => !row.path.startsWith("//"))) {
      const address = path.replace("/*", "/").replace(":name", "x")
      for (const name of [PAGE, "localhost"])
        expect([address, (await at(name, address)).status]).toEqual([address, 404])
    }
  })

  test("no row of the page is on the sandbox's hosts", async () => {
    const { cookie, key } = await login()
    for (const { path } of pageRoutes) {
      const address = path.replace("/*", "/x").replace(":file", "favicon.svg")
      for (const name of ["127.0.0.1", "box.sandpiper.localhost", "x--box.sandpiper.localhost"]) {
        const headers = { cookie, "x-sandpiper-key": key }
        const response = await at(name, address, { headers })
        expect([name, address, response.status]).toEqual([name, address, 404])
      }
    }
  })

  test("the host of a tunnel serves the tunnel, and a tunnel's page is sent there from the box", async () => {
    const app = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("the app") })
    await api(gateway, "POST", "/tunnels", { name: "App", port: app.port })
    const box = { url: gateway.url }
    const cookie = await logIn(box)
    const moved = await at("box.sandpiper.localhost", "/t/App/x?y=1", {
      headers: { cookie, accept: "text/html" },
    })
    const location = new URL(moved.headers.get("location") ?? "")
    expect(location.host).toBe(`app--box.sandpiper.localhost:${gateway.port}`)
    const opened = await at(
      "app--box.sandpiper.localhost",
      `${location.pathname}${location.search}`,
    )
    expect(await opened.text()).toBe("the app")
    await app.stop(true)
  })
})

describe("files of the page", () => {
  test("the page is sent uncached with its policy, and frames only the sandbox", async () => {
    const response = await get("/", { "accept-encoding": "identity" })
    expect(await response.text()).toBe(text)
    expect(response.headers.get("cache-control")).toBe("no-cache")
    expect(response.headers.get("content-security-policy")).toBe(
      `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; font-src 'none'; media-src blob:; frame-src http://box.sandpiper.localhost:${gateway.port} http://*.sandpiper.localhost:${gateway.port} http://127.0.0.1:${gateway.port}; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify`,
    )
    for (const [name, value] of [
      ["x-content-type-options", "nosniff"],
      ["referrer-policy", "no-referrer"],
      ["cross-origin-opener-policy", "same-origin"],
      ["cross-origin-resource-policy", "same-origin"],
      ["permissions-policy", "microphone=(self), camera=(), geolocation=()"],
    ] as const)
      expect(response.headers.get(name)).toBe(value)
  })

  test("a file is compressed as the client accepts, and unpacked for a client that accepts nothing", async () => {
    const raw = (accept: string) =>
      speak(
        gateway.port,
        `GET /assets/main-1.js HTTP/1.1\r\nHost: ${PAGE}\r\nAccept-Encoding: ${accept}\r\nConnection: close\r\n\r\n`,
      )
    expect(await raw("gzip, br")).toMatch(/content-encoding: br\r/)
    expect(await raw("gzip;q=1, br;q=0")).toMatch(/content-encoding: gzip/)
    const plain = await raw("identity")
    expect(plain).not.toContain("content-encoding")
    expect(plain).toEndWith("\r\n\r\n1")
    expect(plain).toContain("cache-control: public, max-age=31536000, immutable")
    expect(plain).toContain("vary: accept-encoding")
  })

  test("a client that has the file gets 304, and HEAD gets the headers only", async () => {
    const { headers } = await get("/assets/main-1.js")
    const etag = headers.get("etag") ?? ""
    expect(etag).toMatch(/^"[0-9a-f]+"$/)
    const again = await get("/assets/main-1.js", { "if-none-match": `"x", ${etag}` })
    expect(again.status).toBe(304)
    expect(await again.text()).toBe("")
    const head = await at(PAGE, "/", { method: "HEAD", headers: { "accept-encoding": "identity" } })
    expect(head.status).toBe(200)
    expect(head.headers.get("content-length")).toBe(String(text.length))
  })

  test("only files of the page are served, by reading only", async () => {
    for (const path of ["/assets/x", "/index.html", "/terminal/index.html", "/x.svg", "/assets/"])
      expect((await get(path)).status).toBe(404)
    expect((await get("/favicon.svg")).status).toBe(200)
    expect((await at(PAGE, "/", { method: "POST" })).status).toBe(405)
  })
})

describe("login", () => {
  test("a code is exchanged once for a cookie that only /hub gets, and a key", async () => {
    const code = issueLoginCode(state, Date.now())
    const response = await post({ code })
    expect(response.headers.get("set-cookie")).toMatch(
      /^sandpiper_page=[0-9a-f]{64}; Path=\/hub; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    )
    const again = await post({ code })
    expect(again.status).toBe(401)
    expect(await codeOf(again)).toBe("bad-code")
  })

  test("an expired code is refused", async () => {
    expect((await post({ code: issueLoginCode(state, Date.now() - 600_000) })).status).toBe(401)
  })

  test("a page of another origin cannot log in, with or without a code, nor can a form", async () => {
    const code = issueLoginCode(state, Date.now())
    for (const headers of [
      { origin: "http://evil.example" },
      { origin: `http://box.sandpiper.localhost:${gateway.port}` },
      { origin: "null" },
      { "sec-fetch-site": "same-site" },
    ])
      expect((await post({ code }, headers)).status).toBe(403)
    expect((await post({ code }, { "content-type": "text/plain" })).status).toBe(400)
    expect((await post({ code }, { origin: `http://${PAGE}:${gateway.port}` })).status).toBe(200)
  })

  test("wrong codes are counted, and further ones are refused with 429", async () => {
    // A gateway of its own: the count is for the address of all clients here.
    const own = startDoor()
    try {
      const statuses = []
      for (let count = 0; count < 30; count += 1)
        statuses.push((await post({ code: `wrong-${count}` }, {}, own)).status)
      expect(statuses[0]).toBe(401)
      expect(statuses.at(-1)).toBe(429)
    } finally {
      await own.stop()
    }
  })

  test("a body that is not a code is malformed, and a large one is refused", async () => {
    expect((await post({})).status).toBe(400)
    expect((await post({ code: "x".repeat(5000) })).status).toBe(413)
  })
})

describe("the session agent behind the page", () => {
  test("cookie and key together reach the hub, which gets its own token and nothing of the login", async () => {
    const { cookie, key } = await login()
    seen.length = 0
    const response = await get("/hub/sessions?x=1&token=stolen", {
      cookie: `${cookie}; other=1`,
      "x-sandpiper-key": key,
      authorization: "Bearer of-the-browser",
      origin: `http://${PAGE}:${gateway.port}`,
      "sec-fetch-site": "same-origin",
    })
    expect(response.status).toBe(200)
    expect(response.headers.get("content-security-policy")).toContain("sandbox")
    const [request] = seen
    expect(request?.url).toEndWith("/sessions?x=1")
    expect(request?.headers["authorization"]).toBe(`Bearer ${HUB_TOKEN}`)
    const received = JSON.stringify(request)
    for (const secret of [key, cookie.split("=")[1] ?? "?", "stolen", "of-the-browser"])
      expect(received).not.toContain(secret)
  })

  test("a cookie without a key, a key without a cookie, and a pair of two logins are refused", async () => {
    const [one, other] = [await login(), await login()]
    seen.length = 0
    for (const headers of [
      {},
      { cookie: one.cookie },
      { "x-sandpiper-key": one.key },
      { cookie: one.cookie, "x-sandpiper-key": other.key },
      { cookie: one.cookie, "x-sandpiper-key": "" },
      { cookie: `gateway_session=${one.cookie.split("=")[1]}`, "x-sandpiper-key": one.key },
      { authorization: `Bearer ${makeToken()}` },
      { authorization: `Bearer ${HUB_TOKEN}` },
    ] as Record<string, string>[])
      expect([401, 429]).toContain((await get("/hub/sessions", headers)).status)
    expect(seen).toEqual([])
  })

  test("a request of another site is refused even with cookie and key", async () => {
    const { cookie, key } = await login()
    const own = { cookie, "x-sandpiper-key": key }
    for (const headers of [
      { origin: "http://evil.example" },
      { origin: `http://app--box.sandpiper.localhost:${gateway.port}` },
      { origin: `http://${PAGE}:1` },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "none" },
    ] as Record<string, string>[]) {
      const response = await get("/hub/sessions", { ...own, ...headers })
      expect([headers, response.status]).toEqual([headers, 403])
    }
  })

  test("a cookie that another page has added does not hide the right one", async () => {
    const { cookie, key } = await login()
    const forged = `sandpiper_page=${"0".repeat(64)}`
    const headers = { cookie: `${forged}; ${cookie}`, "x-sandpiper-key": key }
    expect((await get("/hub/sessions", headers)).status).toBe(200)
  })

  test("an event stream arrives while it is written", async () => {
    const { cookie, key } = await login()
    const response = await get("/hub/events", { cookie, "x-sandpiper-key": key })
    expect(response.headers.get("content-type")).toBe("text/event-stream")
    expect(await response.text()).toBe("data: one\n\ndata: two\n\n")
  })

  const upgrade = (headers: readonly string[]) =>
    speak(
      gateway.port,
      [
        "GET /hub/ws HTTP/1.1",
        `Host: ${PAGE}:${gateway.port}`,
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        ...headers,
        "",
        "",
      ].join("\r\n"),
      (received) => received.includes("\r\n\r\n"),
    )

  test("a WebSocket carries its key as a protocol, which the session agent never sees", async () => {
    const { cookie, key } = await login()
    seen.length = 0
    const answer = await upgrade([
      `Cookie: ${cookie}`,
      `Origin: http://${PAGE}:${gateway.port}`,
      `Sec-WebSocket-Protocol: sandpiper.1, key.${key}`,
    ])
    expect(statusOf(answer)).toBe(101)
    expect(answer.match(/sec-websocket-protocol: .*/gi)).toEqual([
      "Sec-WebSocket-Protocol: sandpiper.1",
    ])
    expect(JSON.stringify(seen)).not.toContain(key)
    expect(seen[0]?.headers["authorization"]).toBe(`Bearer ${HUB_TOKEN}`)
  })

  test("a WebSocket without the key, without the cookie or of another origin is refused", async () => {
    const { cookie, key } = await login()
    const protocol = `Sec-WebSocket-Protocol: sandpiper.1, key.${key}`
    const origin = `Origin: http://${PAGE}:${gateway.port}`
    expect(statusOf(await upgrade([`Cookie: ${cookie}`, origin]))).toBe(401)
    expect(statusOf(await upgrade([protocol, origin]))).toBe(401)
    const foreign = `Origin: http://box.sandpiper.localhost:${gateway.port}`
    expect(statusOf(await upgrade([`Cookie: ${cookie}`, protocol, foreign]))).toBe(403)
  })

  test("logging out everywhere ends logins, open sockets and sessions with the sandbox", async () => {
    const { cookie, key } = await login()
    const person = await logIn(gateway)
    const closed = Promise.withResolvers<number>()
    const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/hub/ws`, {
      headers: { host: PAGE, cookie },
      protocols: ["sandpiper.1", `key.${key}`],
    } as unknown as string[])
    socket.addEventListener("close", ({ code }) => closed.resolve(code))
    await new Promise((resolve) => {
      socket.addEventListener("open", resolve)
    })
    const other = await login()
    const headers = { cookie: other.cookie, "x-sandpiper-key": other.key }
    expect((await at(PAGE, "/hub/logout", { method: "POST", headers })).status).toBe(200)
    await closed.promise
    for (const one of [{ cookie, "x-sandpiper-key": key }, headers])
      expect([401, 429]).toContain((await get("/hub/sessions", one)).status)
    expect((await at("127.0.0.1", "/vscode/", { headers: { cookie: person } })).status).toBe(401)
  })
})

test("the cookie of the page never reaches a backend of the sandbox, and no backend can set it", async () => {
  const { cookie } = await login()
  const person = await logIn(gateway)
  seen.length = 0
  await at("127.0.0.1", "/vscode/", { headers: { cookie: `${person}; ${cookie}; a=1` } })
  expect(seen[0]?.headers["cookie"]).toBe("a=1")
})

test("without a page every host is the sandbox's, as before", async () => {
  const plain = startTestGateway()
  for (const host of ["sandpiper.localhost", "any.example"]) {
    const health = await fetch(`${plain.url}/health`, { headers: { host } })
    expect(health.status).toBe(200)
    for (const path of ["/", "/login", "/hub/sessions"])
      expect((await fetch(`${plain.url}${path}`, { headers: { host } })).status).toBe(404)
  }
  await plain.stop()
})
