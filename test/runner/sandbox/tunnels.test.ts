/** Tunnels: ports that the agent serves, below a path and under their own host. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import {
  parseListeningPorts,
  readListeningPorts,
} from "../../../src/runner/sandbox/listening-ports.ts"
import { createTunnels } from "../../../src/runner/sandbox/tunnels.ts"
import { freePort } from "../../kit/free-port.ts"
import {
  api,
  makeToken,
  speak,
  startTestGateway,
  statusOf,
  type TestGateway,
} from "../gateway/kit.ts"

let app: Bun.Server<undefined>
let gateway: TestGateway
let cookie: string

beforeAll(async () => {
  app = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) =>
      new Response(
        `${new URL(request.url).pathname} for ${request.headers.get("x-forwarded-host")}`,
      ),
  })
  gateway = startTestGateway()
  await api(gateway, "POST", "/tunnels", { name: "Web_1", port: app.port })
})
afterAll(async () => {
  await gateway.stop()
  await app.stop(true)
})

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}${path}`, { redirect: "manual", headers: { cookie, ...headers } })

beforeAll(async () => {
  const response = await fetch(`${gateway.url}/t/Web_1/?token=${makeToken()}`)
  cookie = response.headers.get("set-cookie")?.split(";")[0] ?? ""
})

test("no tunnel leads to another server of the sandbox, wherever its port was moved", async () => {
  const port = app.port ?? 0
  const guarded = startTestGateway({ reserved: () => new Map([[port, "the VNC server"]]) })
  try {
    const response = await api(guarded, "POST", "/tunnels", { name: "screen", port })
    expect(response.status).toBe(409)
    expect(await response.text()).toContain("the VNC server")
  } finally {
    await guarded.stop()
  }
})

describe("a tunnel", () => {
  test("a client that uses a name below a local name gets the tunnel under a name of its own", async () => {
    const { port } = new URL(gateway.url)
    const locationFor = async (host: string) => {
      const response = await get("/t/Web_1/a", { host, accept: "text/html" })
      return response.headers.get("location")?.replace(/=\w+$/, "=")
    }
    const named = `box-1a.sandpiper.localhost:${port}`
    expect(await locationFor(named)).toBe(`http://web_1--${named}/a?ticket=`)
    // These have no names below them, or do not lead to this machine.
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, "box.sandpiper.example"])
      expect(await locationFor(host)).toBeUndefined()
  })
  test("a tunnel is served below its name", async () => {
    expect(await (await get("/t/Web_1/a/b")).text()).toStartWith("/a/b for 127.0.0.1")
  })
  test("a tunnel's path without its trailing slash is redirected", async () => {
    const response = await get("/t/Web_1?x=1")
    expect([response.status, response.headers.get("location")]).toEqual([302, "/t/Web_1/?x=1"])
  })
  test("a tunnel of an unknown name is 404", async () => {
    expect((await get("/t/web_1/")).status).toBe(404)
    expect((await get("/t/Web_1x/")).status).toBe(404)
    expect((await get("/t/none/")).status).toBe(404)
  })
  test("the tunnels are announced to the session agent once for each change", async () => {
    const before = gateway.announced.length
    await api(gateway, "POST", "/tunnels", { name: "more", port: app.port, protocol: "http" })
    await api(gateway, "POST", "/tunnels", { name: "more", port: app.port, protocol: "http" })
    await api(gateway, "DELETE", "/tunnels/more")
    expect(gateway.announced.slice(before)).toEqual([
      [
        { name: "Web_1", port: app.port, protocol: "auto", path: "/t/Web_1" },
        { name: "more", port: app.port, protocol: "http", path: "/t/more" },
      ],
      [{ name: "Web_1", port: app.port, protocol: "auto", path: "/t/Web_1" }],
    ])
  })
  test("removing an unknown tunnel is 404", async () => {
    expect((await api(gateway, "DELETE", "/tunnels/none")).status).toBe(404)
    gateway.deleteTunnel("none")
    expect(gateway.announced.at(-1)).toHaveLength(1)
  })
  test("the list of tunnels shows whether something listens on each port", async () => {
    const port = freePort()
    const free = Bun.listen({ hostname: "127.0.0.1", port, socket: { data: () => {} } })
    await api(gateway, "POST", "/tunnels", { name: "later", port })
    const listening = async () => {
      const { tunnels } = (await (await api(gateway, "GET", "/tunnels")).json()) as {
        tunnels: { name: string; listening: boolean }[]
      }
      return tunnels.find(({ name }) => name === "later")?.listening
    }
    expect(await listening()).toBe(true)
    free.stop(true)
    expect(await listening()).toBe(false)
    await api(gateway, "DELETE", "/tunnels/later")
  })
  test("a tunnel survives a restart of the runner unless its port is reserved now", () => {
    const tunnels = gateway.memory.tunnels
    const again = startTestGateway({ loadTunnels: () => tunnels })
    again.announceTunnels()
    expect(again.announced).toEqual([
      [{ name: "Web_1", port: app.port, protocol: "auto", path: "/t/Web_1" }],
    ])
    void again.stop()
    const taken = startTestGateway({ loadTunnels: () => tunnels, opencodePort: () => app.port })
    taken.announceTunnels()
    expect(taken.announced).toEqual([[]])
    void taken.stop()
  })
  test("stored tunnels that are invalid are discarded", () => {
    const broken = startTestGateway({ loadTunnels: () => '[{"name":"../x","port":1}]' })
    broken.announceTunnels()
    expect(broken.announced).toEqual([[]])
    void broken.stop()
  })
  test("a tunnel to OpenCode's port is refused even while OpenCode does not run", async () => {
    const other = startTestGateway({ opencodeReserved: 4096 })
    const answer = await api(other, "POST", "/tunnels", { name: "x", port: 4096 })
    expect(answer.status).toBe(409)
    expect(await answer.json()).toMatchObject({
      error: "port 4096 belongs to OpenCode: choose another",
      requestId: expect.any(String),
    })
    await other.stop()
  })
  test("there are at most 64 tunnels", async () => {
    const many = startTestGateway()
    const statuses = []
    for (let at = 0; at < 65; at += 1) {
      statuses.push(
        (await api(many, "POST", "/tunnels", { name: `n${at}`, port: 20_000 + at })).status,
      )
    }
    expect(statuses.slice(-2)).toEqual([200, 409])
    await many.stop()
  })
  test("a tunnel reaches an app that listens on the IPv6 loopback address", async () => {
    const six = Bun.serve({ hostname: "::1", port: 0, fetch: () => new Response("six") })
    await api(gateway, "POST", "/tunnels", { name: "six", port: six.port })
    expect(await (await get("/t/six/")).text()).toBe("six")
    await api(gateway, "DELETE", "/tunnels/six")
    await six.stop(true)
  })
})

describe("the host of a tunnel", () => {
  const host = "web_1--sandbox.example.com"
  test("a tunnel's host serves the app from its root", async () => {
    const response = await get("/api/x", { host })
    expect(await response.text()).toBe(`/api/x for ${host}`)
    expect(await (await get("/", { host })).text()).toBe(`/ for ${host}`)
  })
  test("a tunnel's host requires a person", async () => {
    const response = await fetch(`${gateway.url}/`, { headers: { host } })
    expect(response.status).toBe(401)
  })
  test("a person with a token is admitted on a tunnel's host", async () => {
    const url = `${gateway.url}/deep?token=${makeToken()}`
    const response = await fetch(url, {
      redirect: "manual",
      headers: { host, accept: "text/html" },
    })
    expect([response.status, response.headers.get("location")]).toEqual([302, "/deep"])
    expect(response.headers.get("set-cookie")).toContain("Secure; SameSite=None; Partitioned")
  })
  test("a tunnel's host does not redirect to another host", async () => {
    const head = `GET //evil.example/?token=${makeToken()} HTTP/1.1\r\nHost: ${host}\r\nAccept: text/html\r\nConnection: close\r\n\r\n`
    const answer = await speak(gateway.port, head)
    expect(statusOf(answer)).toBe(400)
    expect(answer).not.toContain("evil")
  })
  test("a host that only resembles a tunnel's host is served as the gateway", async () => {
    for (const other of [
      "none--sandbox.example.com",
      "web_1-sandbox.example.com",
      "x.web_1--s.example",
    ]) {
      expect((await get("/", { host: other })).status).toBe(404)
      expect((await get("/health", { host: other })).status).toBe(200)
    }
  })
})

test("a tunnel is announced again when its server starts or stops to listen, and not otherwise", () => {
  const announced: unknown[] = []
  const ports = new Set<number>()
  const tunnels = createTunnels({
    load: () => undefined,
    save: () => {},
    reserved: () => new Map(),
    announce: (all) => announced.push(all.map(({ name, listening }) => [name, listening])),
    listeningPorts: () => ports,
  })
  tunnels.checkListening()
  expect(announced).toEqual([])
  tunnels.register({ name: "web", port: 3000, protocol: "auto" })
  tunnels.register({ name: "api", port: 4000, protocol: "auto" })
  announced.length = 0
  tunnels.checkListening()
  expect(announced).toEqual([])
  ports.add(3000)
  tunnels.checkListening()
  tunnels.checkListening()
  expect(announced.splice(0)).toEqual([
    [
      ["web", true],
      ["api", false],
    ],
  ])
  ports.delete(3000)
  ports.add(4000)
  tunnels.checkListening()
  expect(announced).toEqual([
    [
      ["web", false],
      ["api", true],
    ],
  ])
})

test("a port counts as listening where the gateway can reach it, on IPv4 and on IPv6", () => {
  const head = "  sl  local_address rem_address   st tx_queue"
  const row = (address: string, state: string) => `   0: ${address} 00000000:0000 ${state} 0:0 0:0`
  const table = [
    head,
    row("0100007F:0BB8", "0A"),
    row("00000000:0FA0", "0A"),
    row("0100007F:1388", "01"),
    row("0200A8C0:1770", "0A"),
    row("00000000000000000000000001000000:1B58", "0A"),
    "",
  ]
  expect(parseListeningPorts(table.join("\n"))).toEqual([3000, 4000, 7000])
  expect(readListeningPorts()?.has(app.port ?? 0)).toBe(true)
})
