/** The lifetimes of sessions, cookies and tickets, and the limit of failed logins. */
import { describe, expect, test } from "bun:test"
import { createAttempts } from "../../../src/lib/failed-attempts.ts"
import { createAuth } from "../../../src/runner/gateway/auth.ts"
import { createSessions } from "../../../src/runner/gateway/sessions.ts"
import { createTickets } from "../../../src/runner/gateway/tickets.ts"
import { createManualClock } from "../../kit/clock.ts"
import { api, startTestGateway } from "./kit.ts"

const MINUTE = 60_000
const HOUR = 60 * MINUTE

describe("the session of a person", () => {
  test("a session expires 15 minutes after its last use", () => {
    const { now, advance } = createManualClock()
    const sessions = createSessions(now)
    const { id } = sessions.create("/")
    for (let use = 0; use < 4; use += 1) {
      advance(14 * MINUTE)
      expect(sessions.use(id, "/vnc/")).toBeDefined()
    }
    advance(15 * MINUTE)
    expect(sessions.use(id, "/vnc/")).toBeUndefined()
  })
  test("a session expires after 12 hours even if it is used all the time", () => {
    const { now, advance } = createManualClock()
    const sessions = createSessions(now)
    const { id } = sessions.create("/")
    let minutes = 0
    while (sessions.use(id, "/") !== undefined) {
      advance(10 * MINUTE)
      minutes += 10
    }
    expect(minutes).toBe(12 * 60)
  })
  test("a session does not expire while it has an open WebSocket", () => {
    const { now, advance } = createManualClock()
    const sessions = createSessions(now)
    const session = sessions.create("/")
    session.sockets = 1
    advance(3 * HOUR)
    sessions.sweep()
    expect(sessions.use(session.id, "/")).toBe(session)
  })
  test("expired sessions are removed, and the least recently used one when there are too many", () => {
    const { now, advance } = createManualClock()
    const sessions = createSessions(now, 3)
    const [first, second] = [sessions.create("/"), sessions.create("/")]
    advance(2000)
    sessions.use(first.id, "/")
    sessions.create("/")
    sessions.create("/")
    expect(sessions.size()).toBe(3)
    expect(sessions.use(second.id, "/")).toBeUndefined()
    expect(sessions.use(first.id, "/")).toBeDefined()
    advance(HOUR)
    sessions.sweep()
    expect(sessions.size()).toBe(0)
  })
  test("a session is valid below its scope and not for paths with the same prefix", () => {
    const sessions = createSessions(createManualClock().now)
    const { id } = sessions.create("/vnc/")
    expect(sessions.use(id, "/vnc/x")).toBeDefined()
    expect(sessions.use(id, "/vnc2/")).toBeUndefined()
    expect(sessions.use(id, "/vscode/")).toBeUndefined()
  })
})

describe("the cookie of a session", () => {
  test("a cookie is sent again while it is used, with a renewed lifetime", async () => {
    const clock = createManualClock()
    const backend = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("x") })
    const gateway = startTestGateway({
      clock,
      backends: { vscode: 1, vnc: backend.port ?? 0, ttyd: 3 },
    })
    const { url } = (await (await api(gateway, "POST", "/tickets", { path: "/vnc/" })).json()) as {
      url: string
    }
    const entered = await fetch(`${gateway.url}${url}`)
    const given = entered.headers.get("set-cookie") ?? ""
    const cookie = given.split(";")[0] ?? ""
    const renewed = async () =>
      (await fetch(`${gateway.url}/vnc/`, { headers: { cookie } })).headers.get("set-cookie")
    expect(await renewed()).toBeNull()
    clock.advance(MINUTE)
    expect(await renewed()).toBe(given)
    expect(given).toContain("Max-Age=900")
    expect(await renewed()).toBeNull()
    void gateway.stop()
    await backend.stop(true)
  })
})

describe("tickets", () => {
  test("a ticket can be used once", () => {
    const tickets = createTickets(createManualClock().now)
    const { ticket } = tickets.issue("/vnc/")
    expect(tickets.redeem(ticket)).toEqual({ path: "/vnc/", site: "" })
    expect(tickets.redeem(ticket)).toBeUndefined()
  })
  test("a ticket expires after 30 s", () => {
    const { now, advance } = createManualClock()
    const tickets = createTickets(now)
    const { ticket } = tickets.issue("/vnc/")
    advance(30_000)
    expect(tickets.redeem(ticket)).toBeUndefined()
  })
  test("a ticket opens only its path and is removed from the address", async () => {
    const backend = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: (request) => new Response(request.url),
    })
    const port = backend.port ?? 0
    const gateway = startTestGateway({ backends: { vscode: port, vnc: port, ttyd: port } })
    const issued = (await (await api(gateway, "POST", "/tickets", { path: "/vnc/" })).json()) as {
      url: string
      expiresInSeconds: number
    }
    expect(issued.expiresInSeconds).toBe(30)
    const open = (path: string, headers: Record<string, string>) =>
      fetch(`${gateway.url}${path}`, { redirect: "manual", headers })
    const first = await open(issued.url, { accept: "text/html" })
    expect([first.status, first.headers.get("location")]).toEqual([302, "/vnc/"])
    const cookie = first.headers.get("set-cookie")?.split(";")[0] ?? ""
    expect(first.headers.get("set-cookie")).toContain("Path=/vnc/;")
    expect((await open("/vnc/", { cookie })).status).toBe(200)
    expect((await open("/vscode/", { cookie })).status).toBe(401)
    expect((await open(issued.url, {})).status).toBe(401)
    await gateway.stop()
    await backend.stop(true)
  })
  test.each([
    "/",
    "/api/",
    "/health",
    "/t/",
    "/opencode/",
    "vnc",
    "//evil",
    "/vnc/../api",
    "/vnc/?a",
    7,
  ])("a ticket for %p is refused", async (path) => {
    const gateway = startTestGateway()
    expect((await api(gateway, "POST", "/tickets", { path })).status).toBe(400)
    await gateway.stop()
  })
})

describe("failed logins", () => {
  test("20 failed logins are allowed, and more after some time", () => {
    const { now, advance } = createManualClock()
    const attempts = createAttempts(now)
    const fail = (times: number) =>
      Array.from({ length: times }, () => attempts.failed("peer")).filter(Boolean).length
    expect(fail(20)).toBe(0)
    expect(fail(5)).toBe(5)
    advance(4000)
    expect(fail(3)).toBe(1)
    expect(attempts.failed("another")).toBe(false)
    expect(attempts.total()).toBe(29)
  })
  test("failed logins are counted for a limited number of peers", () => {
    const attempts = createAttempts(createManualClock().now)
    for (let peer = 0; peer < 10_000; peer += 1) attempts.failed(String(peer))
    expect(attempts.peers()).toBe(4096)
  })
})

test("a JWT_SECRET that is too short is refused at startup", () => {
  const auth = (jwtSecret: string) => () =>
    createAuth({ sessionId: "s", jwtSecret, apiToken: "t", now: Date.now })
  expect(auth("")).toThrow("at least 16 characters")
  expect(auth("short")).toThrow("at least 16 characters")
})
