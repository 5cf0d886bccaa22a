/** HTTP through the gateway: bytes pass unchanged, without delay, and with backpressure. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createHash } from "node:crypto"
import { createServer, type Server as HttpServer } from "node:http"
import type { AddressInfo, Socket } from "node:net"
import { gzipSync } from "node:zlib"
import { logIn, makeToken, speak, startTestGateway, statusOf, type TestGateway } from "../kit.ts"
import { untilTrue } from "../../../kit/until-true.ts"

const MB = 1024 * 1024
const events: string[] = []
/** The open connections of the backend. */
const kept = new Set<Socket>()
/** Ends the connection of the response that is half sent. */
let cutHalf = () => {}
let backend: HttpServer
let port = 0
let gateway: TestGateway
let cookie: string

beforeAll(async () => {
  backend = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://x")
    switch (pathname) {
      case "/echo": {
        const hash = createHash("sha256")
        let size = 0
        request.on("data", (bytes: Buffer) => {
          hash.update(bytes)
          size += bytes.length
        })
        request.on("end", () =>
          response.end(
            JSON.stringify({
              size,
              hash: hash.digest("hex"),
              method: request.method,
              headers: request.headers,
            }),
          ),
        )
        return
      }
      case "/gzip":
        response.setHeader("content-encoding", "gzip")
        return response.end(gzipSync("compressed as it came"))
      case "/range": {
        const [, from, to] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "") ?? []
        response.writeHead(206, { "content-range": `bytes ${from}-${to}/100` })
        return response.end("x".repeat(Number(to) - Number(from) + 1))
      }
      case "/sse":
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write("data: first\n\n")
        request.on("close", () => events.push("sse closed"))
        return
      case "/redirect":
        response.writeHead(Number(searchParams.get("status") ?? 302), {
          location: searchParams.get("to") ?? "",
        })
        return response.end()
      case "/never":
        events.push("never asked")
        request.on("close", () => events.push("never closed"))
        return
      case "/half":
        response.writeHead(200, { "content-length": "100" })
        response.write("half of it")
        cutHalf = () => void request.socket.destroy()
        return
      case "/until-close":
        return request.socket.end("HTTP/1.1 200 OK\r\nX-Old: 1\r\n\r\nuntil the end")
      case "/nonsense":
        return request.socket.end("this is not HTTP at all\r\n\r\n")
      case "/split":
        return request.socket.end(
          "HTTP/1.1 200 OK\r\nX-A: b\nX-Injected: 1\r\nContent-Length: 0\r\n\r\n",
        )
      case "/two-lengths":
        return request.socket.end(
          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        )
      case "/early":
        response.writeHead(413, { connection: "close" })
        return response.end("too much")
      case "/hints":
        response.writeEarlyHints({ link: "</x>; rel=preload" })
        return response.end("after the hints")
      case "/surprise":
        return request.socket.end(
          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        )
      case "/chunks":
        response.write("one ")
        response.write("two ")
        return response.end("three")
      case "/cookies":
        response.setHeader("set-cookie", [
          "a=1; Path=/",
          "b=2",
          "c=3; Path=/deep; HttpOnly",
          "__Host-d=4; Path=/; Secure",
        ])
        return response.end()
      default:
        return response.end(`${request.method} ${request.url} ${request.headers.host}`)
    }
  })
  // Short, so that the backend has closed kept connections when the gateway uses them again.
  backend.keepAliveTimeout = 50
  backend.on("connection", (socket) => {
    kept.add(socket)
    socket.once("close", () => kept.delete(socket))
  })
  backend.listen(0, "127.0.0.1")
  await new Promise((resolve) => backend.once("listening", resolve))
  port = (backend.address() as AddressInfo).port
  gateway = startTestGateway({ backends: { vscode: port, vnc: port, ttyd: 9 } })
  cookie = await logIn(gateway)
})

afterAll(async () => {
  await gateway.stop()
  backend.closeAllConnections()
  backend.close()
})

const get = (path: string, init: RequestInit = {}) =>
  fetch(`${gateway.url}/vscode${path}`, {
    redirect: "manual",
    ...init,
    headers: { cookie, ...(init.headers as Record<string, string>) },
  })

test("the backend receives its own path, query and host", async () => {
  const response = await get("/a%2Fb/?q=%20&r=a+b&&s")
  expect(await response.text()).toBe(`GET /a%2Fb/?q=%20&r=a+b&&s localhost:${port}`)
})

test("every method is forwarded with its body", async () => {
  for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
    const response = await get("/echo", { method, body: "some bytes" })
    expect(await response.json()).toMatchObject({ method, size: 10 })
  }
  const head = await get("/chunks", { method: "HEAD" })
  expect([head.status, await head.text()]).toEqual([200, ""])
})

test("a chunked request body arrives complete, and the next request on the connection is served", async () => {
  const body = "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
  const head = (path: string) => `${path} HTTP/1.1\r\nHost: s\r\nCookie: ${cookie}\r\n`
  const answer = await speak(
    gateway.port,
    `${head("POST /vscode/echo")}Transfer-Encoding: chunked\r\n\r\n${body}${head("GET /vscode/next")}Connection: close\r\n\r\n`,
  )
  expect(answer).toContain('"size":6')
  expect(answer).toContain(`GET /next localhost:${port}`)
})

test("a chunked response arrives complete on a connection that is kept alive", async () => {
  const one = `GET /vscode/chunks HTTP/1.1\r\nHost: s\r\nCookie: ${cookie}\r\n`
  const answer = await speak(gateway.port, `${one}\r\n${one}Connection: close\r\n\r\n`)
  expect(answer.match(/HTTP\/1\.1 200/g)).toHaveLength(2)
  expect(answer.match(/three/g)).toHaveLength(2)
})

test("a client of HTTP/1.0 gets a response that ends with the connection", async () => {
  const answer = await speak(
    gateway.port,
    `GET /vscode/chunks HTTP/1.0\r\nCookie: ${cookie}\r\n\r\n`,
  )
  expect(answer.endsWith("\r\n\r\none two three")).toBe(true)
})

test("a compressed response passes unchanged", async () => {
  const raw = await speak(
    gateway.port,
    `GET /vscode/gzip HTTP/1.1\r\nHost: s\r\nAccept-Encoding: gzip\r\nCookie: ${cookie}\r\nConnection: close\r\n\r\n`,
  )
  expect(raw.toLowerCase()).toContain("content-encoding: gzip")
  expect(await (await get("/gzip")).text()).toBe("compressed as it came")
})

test("a range request gets a partial response", async () => {
  const response = await get("/range", { headers: { range: "bytes=10-19" } })
  expect([response.status, response.headers.get("content-range")]).toEqual([206, "bytes 10-19/100"])
  expect(await response.text()).toHaveLength(10)
})

test("events arrive while a response is streaming, and a client that disconnects cancels it at the backend", async () => {
  const leaving = new AbortController()
  const response = await get("/sse", { signal: leaving.signal })
  const reader = response.body?.getReader()
  const first = await reader?.read()
  expect(new TextDecoder().decode(first?.value)).toBe("data: first\n\n")
  expect(events).not.toContain("sse closed")
  leaving.abort()
  await untilTrue(() => events.includes("sse closed"), "the backend is told")
})

test("a client that disconnects while the backend is being connected causes no request to it", async () => {
  let asked = 0
  const late = Bun.serve({
    hostname: "::1",
    port: 0,
    fetch: () => {
      asked += 1
      return new Response("")
    },
  })
  const other = startTestGateway({ backends: { vscode: late.port ?? 0, vnc: 2, ttyd: 3 } })
  const own = await logIn(other)
  const leave = await Bun.connect({
    hostname: "127.0.0.1",
    port: other.port,
    socket: { data: () => {} },
  })
  leave.write(`POST /vscode/ HTTP/1.1\r\nHost: s\r\nCookie: ${own}\r\nContent-Length: 0\r\n\r\n`)
  leave.end()
  expect((await fetch(`${other.url}/vscode/`, { headers: { cookie: own } })).status).toBe(200)
  expect(asked).toBe(1)
  await other.stop()
  await late.stop(true)
})

test("a client that disconnects before its response cancels the request at the backend", async () => {
  const leaving = new AbortController()
  const asked = get("/never", { signal: leaving.signal }).catch(() => "left")
  await untilTrue(() => events.includes("never asked"), "the backend is asked")
  leaving.abort()
  expect(await asked).toBe("left")
  await untilTrue(() => events.includes("never closed"), "the backend is told")
})

describe("redirects", () => {
  const locate = async (to: string) =>
    (await get(`/redirect?to=${encodeURIComponent(to)}`)).headers.get("location")
  test("a redirect within the backend gets the backend's prefix", async () => {
    expect(await locate("/login?next=/")).toBe("/vscode/login?next=/")
    expect(await locate(`http://localhost:${port}/x`)).toBe("/vscode/x")
    expect(await locate(`http://127.0.0.1:${port}`)).toBe("/vscode/")
    expect(await locate(`http://127.0.0.1:${gateway.port}/x`)).toBe("/vscode/x")
    expect(await locate("/vscode/already")).toBe("/vscode/already")
    expect(await locate("/\\evil.example")).toBe("/vscode/\\evil.example")
  })
  test("a redirect that is relative or to another host is unchanged", async () => {
    expect(await locate("./?folder=/w")).toBe("./?folder=/w")
    expect(await locate("https://login.example/a")).toBe("https://login.example/a")
    expect(await locate("//other.example/a")).toBe("//other.example/a")
  })
})

test("the path of a backend's cookie is moved below its prefix", async () => {
  const response = await get("/cookies")
  expect(response.headers.getSetCookie()).toEqual([
    "a=1; Path=/vscode/",
    "b=2",
    "c=3; Path=/vscode/deep; HttpOnly",
    "__Host-d=4; Path=/; Secure",
  ])
})

describe("a backend that fails", () => {
  test("a backend that closes in the middle of a response causes an error at the client", async () => {
    const response = await get("/half")
    expect(response.status).toBe(200)
    cutHalf()
    expect(response.text()).rejects.toThrow()
  })
  test.each(["/nonsense", "/split", "/two-lengths", "/surprise"])(
    "an invalid response of the backend is 502: %s",
    async (path) => {
      const response = await get(path)
      expect(response.status).toBe(502)
      expect(await response.json()).toMatchObject({ code: "backend-down" })
    },
  )
  test("a backend may close the connection to end its response", async () => {
    const response = await get("/until-close")
    expect([response.status, await response.text()]).toEqual([200, "until the end"])
  })
  test("a request on a kept connection that the backend has closed is sent again over a new one", async () => {
    for (let round = 0; round < 5; round += 1) {
      expect((await get("/")).status).toBe(200)
      expect(kept.size).toBeGreaterThan(0)
      for (const socket of kept) socket.destroy()
      await untilTrue(() => kept.size === 0, "the end of the kept connections")
    }
  })
})

describe("a backend that does not listen", () => {
  test("a browser gets a page that reloads when the backend does not listen", async () => {
    const response = await fetch(`${gateway.url}/ttyd/`, {
      headers: { cookie, accept: "text/html" },
    })
    const page = await response.text()
    expect([response.status, response.headers.get("retry-after")]).toEqual([502, "2"])
    expect(page).toContain("The terminal does not respond yet")
    expect(page).toContain('http-equiv="refresh" content="2"')
  })
  test("a program gets JSON without internal details when the backend does not listen", async () => {
    const response = await fetch(`${gateway.url}/ttyd/x`, { headers: { cookie } })
    const text = await response.text()
    expect(JSON.parse(text)).toMatchObject({
      error: "the terminal does not respond yet: it may still be starting",
      code: "backend-down",
    })
    expect(text).not.toMatch(/ECONN|Error|at /)
  })
})

test("an interim response of the backend does not disturb the response", async () => {
  expect(await (await get("/hints")).text()).toBe("after the hints")
})

test("a client that sends Expect: 100-continue gets 100 Continue", async () => {
  const head = `POST /vscode/echo HTTP/1.1\r\nHost: s\r\nCookie: ${cookie}\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\nhello`
  const answer = await speak(gateway.port, head)
  expect(answer.startsWith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")).toBe(true)
})

test("a response that is sent before the whole request was read reaches the client", async () => {
  const head = `POST /vscode/early HTTP/1.1\r\nHost: s\r\nCookie: ${cookie}\r\nContent-Length: 100000\r\n\r\nonly this`
  const answer = await speak(gateway.port, head)
  expect(statusOf(answer)).toBe(413)
  expect(answer).toContain("too much")
})

test("a large body arrives unchanged, with a length and in chunks", async () => {
  const bytes = new Uint8Array(20 * MB).map((_, at) => at % 251)
  const hash = createHash("sha256").update(bytes).digest("hex")
  const counted = await get("/echo", { method: "POST", body: bytes })
  expect(await counted.json()).toMatchObject({ size: bytes.length, hash })
  const stream = new ReadableStream({
    start: (controller) => {
      for (let at = 0; at < bytes.length; at += 100_001)
        controller.enqueue(bytes.slice(at, at + 100_001))
      controller.close()
    },
  })
  const chunked = await get("/echo", { method: "POST", body: stream })
  expect(await chunked.json()).toMatchObject({ size: bytes.length, hash })
})

describe("a person with a token", () => {
  const visit = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${gateway.url}${path}`, { redirect: "manual", headers })
  test("a browser with a token in the address is redirected to the address without it and gets a cookie", async () => {
    const response = await visit(`/vscode/a?x=%41&token=${makeToken()}&y`, { accept: "text/html" })
    expect([response.status, response.headers.get("location")]).toEqual([302, "/vscode/a?x=%41&y"])
    expect(response.headers.get("referrer-policy")).toBe("no-referrer")
    expect(response.headers.get("set-cookie")).toMatch(
      /^gateway_session=[0-9a-f]{64}; Path=\/; Max-Age=900; HttpOnly; SameSite=Lax$/,
    )
  })
  test("a person over HTTPS gets a cookie that works in a frame of another site", async () => {
    const response = await visit(`/vscode/?token=${makeToken()}`, {
      accept: "text/html",
      "x-forwarded-proto": "https",
    })
    expect(response.headers.get("set-cookie")).toEndWith(
      "; HttpOnly; Secure; SameSite=None; Partitioned",
    )
  })
  test("a program with a token gets the response without a redirect, and a cookie", async () => {
    const response = await visit("/vscode/x", { authorization: `Bearer ${makeToken()}` })
    expect(await response.text()).toContain("GET /x")
    expect(response.headers.get("set-cookie")).toStartWith("gateway_session=")
  })
  test("two logins at the same time get two cookies", async () => {
    const responses = await Promise.all(
      Array.from({ length: 20 }, () =>
        visit(`/vscode/?token=${makeToken()}`, { accept: "text/html" }),
      ),
    )
    expect(new Set(responses.map((response) => response.headers.get("set-cookie"))).size).toBe(20)
  })
  test("a service without its trailing slash is redirected to it", async () => {
    const response = await visit("/vscode?a=1", { cookie })
    expect([response.status, response.headers.get("location")]).toEqual([302, "/vscode/?a=1"])
  })
})
