/** Attacks over raw sockets: from the network, from a web page, and from inside the sandbox. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { generateKeyPairSync, createSign } from "node:crypto"
import { routes } from "../../../src/runner/gateway/routes.ts"
import {
  api,
  API_TOKEN,
  logIn,
  makeToken,
  SECRET,
  SESSION,
  speak,
  startTestGateway,
  statusOf,
  type TestGateway,
} from "./kit.ts"

interface Seen {
  readonly url: string
  readonly headers: Headers
}

let seen: Seen[] = []
let backend: Bun.Server<undefined>
let tunnelled: Bun.Server<undefined>
let gateway: TestGateway
let cookie: string

beforeAll(async () => {
  const serve = (request: Request) => {
    const { pathname } = new URL(request.url)
    seen.push({ url: pathname + new URL(request.url).search, headers: request.headers })
    if (pathname === "/elsewhere") {
      return new Response(null, { status: 302, headers: { location: "http://evil.example/x" } })
    }
    if (pathname === "/steal") {
      return new Response("", {
        headers: [
          ["set-cookie", "gateway_session=evil; Path=/"],
          ["set-cookie", "GATEWAY_SESSION=evil; Path=/"],
          ["set-cookie", "=gateway_session=evil; Path=/"],
          ["service-worker-allowed", "/"],
          ["clear-site-data", '"*"'],
          ["set-cookie", "theirs=1; Path=/"],
        ],
      })
    }
    return new Response("from the backend")
  }
  backend = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: serve })
  tunnelled = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: serve })
  const port = backend.port ?? 0
  gateway = startTestGateway({
    backends: { vscode: port, vnc: port, ttyd: port },
    opencodePort: () => opencode.port ?? 0,
    opencodePassword: "pw",
  })
  cookie = await logIn(gateway)
  await api(gateway, "POST", "/tunnels", { name: "app", port: tunnelled.port })
})

/** A fake OpenCode that requires a password. */
const opencode = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request) =>
    request.headers.get("authorization") === `Basic ${btoa("opencode:pw")}`
      ? new Response("in")
      : new Response("password?", { status: 401 }),
})

afterAll(async () => {
  await gateway.stop()
  await backend.stop(true)
  await tunnelled.stop(true)
  await opencode.stop(true)
})

const get = (path: string, ...headers: string[]) =>
  speak(
    gateway.port,
    [`GET ${path} HTTP/1.1`, "Host: sandbox.example", ...headers, "Connection: close", "", ""].join(
      "\r\n",
    ),
  )

/** Whether a request reached a backend during `run`. */
const reached = async (run: () => Promise<unknown>): Promise<boolean> => {
  seen = []
  await run()
  return seen.length > 0
}

describe("an invalid token", () => {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
  const pem = publicKey.export({ type: "spki", format: "pem" })
  const [rsHead = "", rsBody = ""] = makeToken({ header: { alg: "RS256" } }).split(".")
  const rsSignature = createSign("RSA-SHA256")
    .update(`${rsHead}.${rsBody}`)
    .sign(privateKey, "base64url")
  const past = Math.floor(Date.now() / 1000) - 31
  const cases: Record<string, string> = {
    "alg none": makeToken({ header: { alg: "none" }, signature: "" }),
    "alg None, signed": makeToken({ header: { alg: "None" } }),
    "alg none in odd case": makeToken({ header: { alg: "nOnE" }, signature: "" }),
    RS256: `${rsHead}.${rsBody}.${rsSignature}`,
    "RS256's public key as the secret": makeToken({ secret: pem }),
    "HS512 by name": makeToken({ header: { alg: "HS512" } }),
    "another session": makeToken({ claims: { sid: "another" } }),
    "a session that contains ours": makeToken({ claims: { sid: `${SESSION}x` } }),
    "sid a list": makeToken({ claims: { sid: [SESSION] } }),
    "no sid": makeToken({ claims: { sid: undefined } }),
    "no exp": makeToken({ claims: { exp: undefined } }),
    "exp a text": makeToken({ claims: { exp: "9999999999" } }),
    "no sub": makeToken({ claims: { sub: undefined } }),
    "empty sub": makeToken({ claims: { sub: "" } }),
    expired: makeToken({ claims: { exp: past } }),
    "not yet valid": makeToken({ claims: { nbf: past + 600 } }),
    "empty secret": makeToken({ secret: "" }),
    "wrong secret": makeToken({ secret: `${SECRET}x` }),
    "no signature": makeToken({ signature: "" }),
    "a critical extension": makeToken({ header: { crit: ["x"], x: 1 } }),
    "not base64": "!!!.###.???",
    "not JSON": `${btoa("not json")}.${btoa("nor this")}.x`,
    "two parts": "a.b",
    empty: "",
    "very long": "a".repeat(9000),
    "bytes that are not text": "%ff%fe%00",
    "a bare object": "[object Object]",
  }
  // All cases have the same peer address, so the status is 401 or, after 20 failures, 429.
  test.each(Object.entries(cases))(
    "an invalid token in the query is refused: %s",
    async (_, token) => {
      const path = `/vscode/?token=${token.replaceAll(" ", "%20")}`
      let answer = ""
      expect(await reached(async () => (answer = await get(path)))).toBe(false)
      expect([401, 429]).toContain(statusOf(answer))
      expect(answer.toLowerCase()).not.toContain("set-cookie")
    },
  )
  test.each(Object.entries(cases).filter(([, token]) => /^[\x21-\x7e]+$/.test(token)))(
    "an invalid token in a header is refused: %s",
    async (_, token) => {
      let answer = ""
      const bearer = `Authorization: Bearer ${token}`
      expect(await reached(async () => (answer = await get("/ttyd/", bearer)))).toBe(false)
      expect([401, 429]).toContain(statusOf(answer))
    },
  )

  test("a valid token is accepted after invalid ones", async () => {
    expect(statusOf(await get(`/vscode/?token=${makeToken()}`))).toBe(200)
  })
})

test("a token is accepted up to 30 seconds after it has expired", async () => {
  const exp = Math.floor(Date.now() / 1000) - 25
  expect(statusOf(await get(`/vscode/?token=${makeToken({ claims: { exp } })}`))).toBe(200)
})

test("a cookie that the gateway has not issued is refused", async () => {
  for (const value of ["", "x", "0".repeat(64), "__proto__", "constructor", cookie.slice(0, -1)]) {
    const header = value.startsWith("gateway") ? value : `gateway_session=${value}`
    expect(await reached(() => get("/vscode/", `Cookie: ${header}`))).toBe(false)
  }
})

describe("path traversal", () => {
  const rows = routes
    .filter(({ path }) => !path.startsWith("//"))
    .map(({ path }) => path.replace("/*", "/").replace(":name", "app").split("?")[0] ?? "")
  const tricks = [
    "../api/tunnels",
    "x/../../api/tunnels",
    "%2e%2e/api/tunnels",
    "..%2fapi%2ftunnels",
    "%2e%2e%2fapi",
    ".%2e/api",
    "..\\api",
    "..%5capi",
    "./x",
    "x/..",
    "x/%2E%2E",
    "%00",
    "x%0d%0aX: y",
  ]
  const addresses = rows.flatMap((row) =>
    tricks.map((trick) => `${row.endsWith("/") ? row : `${row}/`}${trick}`),
  )
  test.each(addresses)("a path that could leave its route is 400: %s", async (address) => {
    let answer = ""
    const run = async () => {
      answer = await get(address, `Cookie: ${cookie}`, `Authorization: Bearer ${API_TOKEN}`)
    }
    expect(await reached(run)).toBe(false)
    expect(statusOf(answer)).toBe(400)
  })

  test.each([
    "//evil.example/",
    "http://evil.example/vscode/",
    "*",
    "vscode/",
    "/%76scode/",
    "/vscode%2f",
    "/VSCODE/",
    "/vscodeX/",
    "/vscode;x/",
    "/t",
    "/t/",
    "/t/%61pp/",
    "/health/",
    "/health/../vscode/",
    "/api%2ftunnels",
    "/apix",
    "/",
    "/favicon.ico",
    "/.env",
  ])("an address that matches no row is not served: %s", async (address) => {
    let answer = ""
    const run = async () => {
      answer = await get(address, `Cookie: ${cookie}`)
    }
    expect(await reached(run)).toBe(false)
    expect([400, 404]).toContain(statusOf(answer))
  })
})

describe("ambiguous messages", () => {
  const post = (...lines: string[]) =>
    [`POST /vscode/ HTTP/1.1`, "Host: s", `Cookie: ${cookie}`, ...lines].join("\r\n")
  const smuggled = "GET /vscode/smuggled HTTP/1.1\r\nHost: s\r\n\r\n"
  const heads: Record<string, () => string> = {
    "two lengths": () =>
      `${post("Content-Length: 5", "Content-Length: 6")}\r\n\r\nhello${smuggled}`,
    "the same length twice": () => `${post("Content-Length: 5", "Content-Length: 5")}\r\n\r\nhello`,
    "a list of lengths": () => `${post("Content-Length: 5, 5")}\r\n\r\nhello`,
    "a length with a sign": () => `${post("Content-Length: +5")}\r\n\r\nhello`,
    "a length in hexadecimal": () => `${post("Content-Length: 0x5")}\r\n\r\nhello`,
    "a length beyond numbers": () => `${post("Content-Length: 99999999999999999999")}\r\n\r\n`,
    "length and chunks": () =>
      `${post("Content-Length: 4", "Transfer-Encoding: chunked")}\r\n\r\n0\r\n\r\n${smuggled}`,
    "chunks and length": () =>
      `${post("Transfer-Encoding: chunked", "Content-Length: 4")}\r\n\r\n0\r\n\r\n${smuggled}`,
    "chunks in disguise": () => `${post("Transfer-Encoding: xchunked")}\r\n\r\n0\r\n\r\n`,
    "chunks under two codings": () =>
      `${post("Transfer-Encoding: gzip, chunked")}\r\n\r\n0\r\n\r\n`,
    "chunks said twice": () =>
      `${post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")}\r\n\r\n0\r\n\r\n`,
    "chunks with a tab": () => `${post("Transfer-Encoding:\x0bchunked")}\r\n\r\n0\r\n\r\n`,
    "a space before the colon": () => `${post("Content-Length : 5")}\r\n\r\nhello`,
    "a folded line": () => `${post("X-A: b", " Content-Length: 5")}\r\n\r\nhello`,
    "a bare line feed": () => `${post("X-A: b\nX-Injected: 1")}\r\n\r\n`,
    "a bare carriage return": () => `${post("X-A: b\rX-Injected: 1")}\r\n\r\n`,
    "a zero byte": () => `${post("X-A: b\0c")}\r\n\r\n`,
    "a header without a name": () => `${post(": x")}\r\n\r\n`,
    "two hosts": () => `${post("Host: evil.example")}\r\n\r\n`,
    "a host with a path": () =>
      `GET /vscode/ HTTP/1.1\r\nHost: s/evil\r\nCookie: ${cookie}\r\n\r\n`,
    "a host with a name in it": () =>
      `GET /vscode/ HTTP/1.1\r\nHost: a@b\r\nCookie: ${cookie}\r\n\r\n`,
    "no host": () => `GET /vscode/ HTTP/1.1\r\nCookie: ${cookie}\r\n\r\n`,
    "an absolute address": () =>
      `GET http://s/vscode/ HTTP/1.1\r\nHost: s\r\nCookie: ${cookie}\r\nConnection: close\r\n\r\n`,
    "two authorizations": () =>
      `${post("Authorization: Bearer a", "Authorization: Bearer b")}\r\n\r\n`,
    "a connection that names the length": () =>
      `${post("Connection: content-length", "Content-Length: 5")}\r\n\r\nhello`,
    "an unknown version": () => `GET /vscode/ HTTP/1.9\r\nHost: s\r\n\r\n`,
    "HTTP/2 by surprise": () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a space in the address": () => `GET /vscode/ x HTTP/1.1\r\nHost: s\r\n\r\n`,
    "bytes that are no HTTP": () => "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n",
    "a head without an end": () => `GET /vscode/ HTTP/1.1\r\nX: ${"a".repeat(40_000)}`,
    "too many headers": () =>
      `${post(...Array.from({ length: 200 }, (_, at) => `X-${at}: 1`))}\r\n\r\n`,
    "an address without an end": () =>
      `GET /vscode/${"a".repeat(20_000)} HTTP/1.1\r\nHost: s\r\n\r\n`,
    CONNECT: () =>
      `CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nConnection: close\r\n\r\n`,
    TRACE: () =>
      `TRACE /vscode/ HTTP/1.1\r\nHost: s\r\nCookie: ${cookie}\r\nConnection: close\r\n\r\n`,
  }
  test.each(Object.keys(heads))(
    "an ambiguous or malformed head is refused with one response: %s",
    async (name) => {
      let answer = ""
      const run = async () => {
        answer = await speak(gateway.port, heads[name]?.() ?? "")
      }
      expect(await reached(run)).toBe(false)
      expect([400, 404, 405, 414, 431, 505]).toContain(statusOf(answer))
      expect(answer.match(/HTTP\/1\.1 \d/g)).toHaveLength(1)
    },
  )

  const bodies: Record<string, string> = {
    "an extension": "5;a=b\r\nhello\r\n0\r\n\r\n",
    "a size with a sign": "+5\r\nhello\r\n0\r\n\r\n",
    "a size beyond numbers": "fffffffffffffffff\r\n",
    "a bare line feed": "5\nhello\r\n0\r\n\r\n",
    "data longer than its size": "5\r\nhelloo\r\n0\r\n\r\n",
    "a size that is none": "g\r\n",
    "trailers without an end": `0\r\nX: ${"a".repeat(10_000)}`,
  }
  test.each(Object.keys(bodies))("a chunked body with %s is refused", async (name) => {
    const answer = await speak(
      gateway.port,
      `${post("Transfer-Encoding: chunked")}\r\n\r\n${bodies[name]}`,
    )
    expect([400, 431]).toContain(statusOf(answer))
  })

  test("a trailer does not become a header of the backend's request", async () => {
    seen = []
    const body = "5\r\nhello\r\n0\r\nGateway-User: root\r\n\r\n"
    const head = post("Transfer-Encoding: chunked", "Connection: close")
    const answer = await speak(gateway.port, `${head}\r\n\r\n${body}`)
    expect(statusOf(answer)).toBe(200)
    expect(seen).toHaveLength(1)
    expect(seen[0]?.headers.get("gateway-user")).toBeNull()
  })

  test("1000 requests in one packet get 1000 responses", async () => {
    const one = `GET /health HTTP/1.1\r\nHost: s\r\n\r\n`
    const last = `GET /health HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n`
    const answer = await speak(gateway.port, one.repeat(999) + last)
    expect(answer.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(1000)
  })
})

describe("a person's cookie and token", () => {
  test("the person's cookie and token and forged proxy headers do not reach a backend", async () => {
    seen = []
    await get(
      `/t/app/x?a=%20b&token=${makeToken()}&c`,
      `Cookie: one=1; ${cookie}; two=2`,
      `Authorization: Bearer ${makeToken()}`,
      "X-Forwarded-For: 6.6.6.6",
      "X-Forwarded-Host: evil.example",
      "Forwarded: for=6.6.6.6",
      "X-Real-IP: 6.6.6.6",
      "Proxy-Authorization: Basic x",
      "TE: trailers",
      "X-Hop: 1",
      "Connection: X-Hop",
    )
    const [request] = seen
    const all = JSON.stringify([...(request?.headers ?? [])])
    expect(request?.url).toBe("/x?a=%20b&c")
    expect(request?.headers.get("cookie")).toBe("one=1; two=2")
    expect(request?.headers.get("x-forwarded-for")).toBe("127.0.0.1")
    expect(request?.headers.get("x-forwarded-host")).toBe("sandbox.example")
    expect(request?.headers.get("x-forwarded-prefix")).toBe("/t/app")
    for (const word of ["gateway_session", "eyJ", "6.6.6.6", "evil", "x-hop", "proxy-auth"]) {
      expect(all).not.toContain(word)
    }
  })

  test("an Authorization header for the app reaches the app", async () => {
    seen = []
    await get("/t/app/", `Cookie: ${cookie}`, "Authorization: Bearer of-the-app")
    expect(seen[0]?.headers.get("authorization")).toBe("Bearer of-the-app")
  })

  test("an app cannot set the gateway's cookie", async () => {
    const answer = await get("/t/app/steal", `Cookie: ${cookie}`)
    expect(answer).not.toContain("evil")
    expect(answer).toContain("theirs=1; Path=/t/app/")
  })

  test("an app's service worker is limited to the app, and the app cannot clear the data of the site", async () => {
    const answer = (await get("/t/app/steal", `Cookie: ${cookie}`)).toLowerCase()
    expect(answer).toContain("service-worker-allowed: /t/app/\r\n")
    expect(answer).not.toContain("clear-site-data")
  })

  test("a redirect to another host is passed on and not followed", async () => {
    seen = []
    const answer = await get("/t/app/elsewhere", `Cookie: ${cookie}`)
    expect(statusOf(answer)).toBe(302)
    expect(answer.toLowerCase()).toContain("location: http://evil.example/x")
    expect(seen).toHaveLength(1)
  })

  test("a valid cookie among forged ones is accepted", async () => {
    const header = `Cookie: gateway_session=false; ${cookie}; gateway_session=x`
    expect(statusOf(await get("/vscode/", header))).toBe(200)
  })
})

describe("a page of another site", () => {
  const upgrade = (origin: string, path = "/ttyd/ws") =>
    get(
      path,
      `Cookie: ${cookie}`,
      "Upgrade: websocket",
      "Connection: Upgrade",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
      "Sec-WebSocket-Version: 13",
      `Origin: ${origin}`,
    )
  test.each([
    "https://evil.example",
    "null",
    "https://sandbox.example.evil.example",
    "https://evil.example/sandbox.example",
    "https://sandbox.example@evil.example",
    "file://sandbox.example",
    "https://sandbox.example:444",
    "sandbox.example",
    "https://app.example.com.evil.example",
  ])("a page of another site cannot open a WebSocket: %s", async (origin) => {
    let answer = ""
    expect(await reached(async () => (answer = await upgrade(origin)))).toBe(false)
    expect(statusOf(answer)).toBe(403)
  })

  test.each(["https://sandbox.example", "http://sandbox.example", "https://app.example.com"])(
    "a page of an allowed origin can open a WebSocket: %s",
    async (origin) => {
      expect(await reached(() => upgrade(origin))).toBe(true)
    },
  )

  test("a page of another site cannot POST with the person's cookie", async () => {
    const head = ["POST /t/app/x HTTP/1.1", "Host: sandbox.example", `Cookie: ${cookie}`]
    const rest = ["Content-Length: 0", "Connection: close", "", ""]
    const post = (origin: string) =>
      speak(gateway.port, [...head, `Origin: ${origin}`, ...rest].join("\r\n"))
    expect(statusOf(await post("https://evil.example"))).toBe(403)
    expect(statusOf(await post("https://sandbox.example"))).toBe(200)
  })

  test("a page of another site cannot open a WebSocket to OpenCode", async () => {
    expect(statusOf(await upgrade("https://evil.example", "/opencode/pty"))).toBe(403)
  })
})

describe("/api", () => {
  const token = `Authorization: Bearer ${API_TOKEN}`
  test("the API refuses every request without the token of this boot", async () => {
    const tries = [
      [],
      [`Cookie: ${cookie}`],
      [`Authorization: Bearer ${makeToken()}`],
      [`Authorization: Bearer ${API_TOKEN.slice(0, -1)}`],
      [`Authorization: Bearer ${API_TOKEN}x`],
      [`Authorization: Basic ${btoa(`x:${API_TOKEN}`)}`],
      [`Authorization: ${API_TOKEN}`],
      ["X-Forwarded-For: 127.0.0.1"],
    ]
    for (const headers of tries) {
      const answer = await get("/api/tunnels", ...headers)
      expect([401, 429]).toContain(statusOf(answer))
    }
    expect([401, 429]).toContain(statusOf(await get(`/api/tunnels?token=${API_TOKEN}`)))
    expect(statusOf(await get("/api/tunnels", token))).toBe(200)
  })

  test("the API token does not open a person's route", async () => {
    expect([401, 429]).toContain(statusOf(await get("/vscode/", token)))
  })

  test("a tunnel to the gateway, OpenCode, the VNC server or a service is refused", async () => {
    for (const port of [gateway.port, opencode.port, 5900, backend.port]) {
      const answer = await api(gateway, "POST", "/tunnels", { name: "x", port })
      expect(answer.status).toBe(409)
      expect(await answer.json()).toMatchObject({ code: "port-taken" })
    }
  })

  test.each([
    [{ name: "x", port: 0 }, "port"],
    [{ name: "x", port: 65_536 }, "port"],
    [{ name: "x", port: "80" }, "port"],
    [{ name: "../x", port: 80 }, "name"],
    [{ name: "a".repeat(33), port: 80 }, "name"],
    [{ name: "", port: 80 }, "name"],
    [{ port: 80 }, "name"],
    [{ name: "x", port: 80, protocol: "tcp" }, "protocol"],
  ])("an invalid tunnel is 400 and names the problem: %j", async (body, word) => {
    const answer = await api(gateway, "POST", "/tunnels", body)
    expect(answer.status).toBe(400)
    expect(((await answer.json()) as { error: string }).error).toContain(word)
  })
})

describe("/opencode", () => {
  test("OpenCode itself refuses a request without its password", async () => {
    expect(statusOf(await get("/opencode/session"))).toBe(401)
    expect(statusOf(await get("/opencode/session", `Cookie: ${cookie}`))).toBe(401)
    const basic = `Authorization: Basic ${btoa("opencode:pw")}`
    expect(statusOf(await get("/opencode/session", basic))).toBe(200)
  })

  test("a body is forwarded only with OpenCode's password, in a header or in the query", async () => {
    const post = (query: string, headers: Record<string, string>) =>
      fetch(`${gateway.url}/opencode/session${query}`, { method: "POST", headers, body: "{}" })
    const basic = (password: string) => ({ authorization: `Basic ${btoa(`opencode:${password}`)}` })
    const refused = await post("", basic("guess"))
    expect([refused.status, await refused.text()]).toEqual([
      401,
      expect.stringContaining("a body needs OpenCode's password"),
    ])
    expect((await post("", {})).status).toBe(401)
    expect(await (await post("", basic("pw"))).text()).toBe("in")
    // The fake OpenCode answers: it reads no token from the query.
    const query = `?auth_token=${encodeURIComponent(btoa("opencode:pw"))}`
    expect(await (await post(query, {})).text()).toBe("password?")
  })
})

test("the log contains no secret", () => {
  const log = gateway.log.join("\n")
  for (const secret of [SECRET, API_TOKEN, cookie.split("=")[1] ?? "", "eyJ"]) {
    expect(log).not.toContain(secret)
  }
})
