/** Cookies and tickets of the gateway open what they are for, and no page or backend can bend them. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { ownCookies, withPathUnder } from "../../src/runner/gateway/http/cookies.ts"
import { isLocal } from "../../src/runner/gateway/http/request-info.ts"
import { parseRequestHead } from "../../src/runner/gateway/http/head.ts"
import { readInvocation } from "../../src/settings/settings.ts"
import {
  api,
  API_TOKEN,
  logIn,
  makeToken,
  startTestGateway,
  type TestGateway,
} from "../runner/gateway/kit.ts"

let gateway: TestGateway
let backend: ReturnType<typeof Bun.serve>
let app: ReturnType<typeof Bun.serve>

beforeAll(async () => {
  const serve = () =>
    Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("inside") })
  backend = serve()
  app = serve()
  gateway = startTestGateway({ backends: { vscode: backend.port ?? 0, vnc: 2, ttyd: 3 } })
  for (const name of ["one", "two"]) {
    await api(gateway, "POST", "/tunnels", { name, port: app.port })
  }
})

afterAll(async () => {
  await gateway.stop()
  await backend.stop(true)
  await app.stop(true)
})

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}${path}`, { headers, redirect: "manual" })

const ticketFor = async (path: string): Promise<string> => {
  const response = await api(gateway, "POST", "/tickets", { path })
  return ((await response.json()) as { ticket: string }).ticket
}

test("a ticket for one tunnel does not open another tunnel by its host", async () => {
  const ticket = await ticketFor("/t/one/")
  const stolen = await get(`/t/one/?ticket=${ticket}`, { host: "two--sandbox.example.com" })
  expect(stolen.status).toBe(401)
  expect(stolen.headers.get("set-cookie")).toBeNull()
})

test("the cookie of a ticket for one tunnel does not open another tunnel by its host", async () => {
  const opened = await get(`/t/one/?ticket=${await ticketFor("/t/one/")}`)
  const cookie = opened.headers.get("set-cookie")?.split(";")[0] ?? ""
  expect((await get("/t/one/", { cookie })).status).toBe(200)
  expect((await get("/t/one/", { cookie, host: "two--sandbox.example.com" })).status).toBe(401)
})

test("a token still opens a tunnel by its own host", async () => {
  const headers = { authorization: `Bearer ${makeToken()}`, host: "one--sandbox.example.com" }
  expect((await get("/", headers)).status).toBe(200)
})

test.each([
  ["x=1; Path=/", "x=1; Path=/t/app/"],
  ["x=1; PATH =/", "x=1; Path=/t/app/"],
  ["x=1;\tpath\t=\t/", "x=1; Path=/t/app/"],
  ["x=1; Path=/t/app/deep; Path=/", "x=1; Path=/t/app/"],
  ["x=1; Path=/; HttpOnly; path= /vscode", "x=1; Path=/t/app/vscode; HttpOnly"],
  ['x=1; Path="/"; Secure', "x=1; Secure"],
  ["x=1; Path=/t/app/deep", "x=1; Path=/t/app/deep"],
  ["x=1; Path=/t/app2", "x=1; Path=/t/app/t/app2"],
])("a backend that spells a cookie's path as %j keeps it below its own prefix", (given, sent) => {
  expect(withPathUnder("/t/app", given)).toBe(sent)
})

test("a hundred junk cookies before the right one do not lock a person out", async () => {
  const cookie = await logIn(gateway)
  const junk = Array.from({ length: 100 }, (_, index) => {
    const value = index.toString(16).padStart(64, "0")
    return `gateway_session=${index % 2 === 0 ? value : `junk-${index}`}`
  })
  const response = await get("/vscode/", { cookie: [...junk, cookie].join("; ") })
  expect(response.status).toBe(200)
})

test("a cookie value that the gateway has not made is not looked up", () => {
  const header = { name: "Cookie", key: "cookie", value: "gateway_session=short; gateway_session=" }
  expect([...ownCookies([header])]).toEqual([])
})

test.each(["127.evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1e"])(
  "the host %s does not count as this machine",
  (host) => {
    const head = parseRequestHead(`GET / HTTP/1.1\r\nHost: ${host}`)
    expect(isLocal(head, "127.0.0.1")).toBe(false)
    const settings = (variables: Record<string, string>) =>
      readInvocation(["doctor"], variables, "/")
    expect(() => settings({ OPENCODE_URL: `http://${host}:4096` })).toThrow("OPENCODE_URL")
    expect(() => settings({ DO_WS_URL: `ws://${host}/ws` })).toThrow("DO_WS_URL")
    expect(() => settings({ REPO_URL: `http://${host}/a.git` })).toThrow("REPO_URL")
  },
)

test("twelve thousand requests with a bearer token do not end a person's session", async () => {
  const cookie = await logIn(gateway)
  const headers = { authorization: `Bearer ${makeToken()}` }
  const work = async () => {
    for (let count = 0; count < 300; count += 1) await (await get("/vscode/", headers)).text()
  }
  await Promise.all(Array.from({ length: 40 }, work))
  expect((await get("/vscode/", { cookie })).status).toBe(200)
  const metrics = await (await get("/metrics", { authorization: `Bearer ${API_TOKEN}` })).text()
  const people = Number(/sandpiper_gateway_people (\d+)/.exec(metrics)?.[1])
  expect(people).toBeLessThan(20)
})
