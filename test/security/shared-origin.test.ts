/** A page that the agent serves never shares the origin of the editor, the screen and the terminal by default. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { api, logIn, startTestGateway, type TestGateway } from "../runner/gateway/kit.ts"
import { readInvocation } from "../../src/settings/settings.ts"

let app: ReturnType<typeof Bun.serve>
let editor: ReturnType<typeof Bun.serve>
const gateways: TestGateway[] = []

const page = () =>
  new Response("<script>1</script>", {
    headers: { "content-type": "text/html", "content-security-policy": "script-src 'self'" },
  })

beforeAll(() => {
  app = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: page })
  editor = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: page })
})

afterAll(async () => {
  for (const gateway of gateways) await gateway.stop()
  await app.stop(true)
  await editor.stop(true)
})

const start = async (change: Parameters<typeof startTestGateway>[0] = {}) => {
  const gateway = startTestGateway({
    backends: { vscode: editor.port ?? 0, vnc: 2, ttyd: 3 },
    ...change,
  })
  gateways.push(gateway)
  await api(gateway, "POST", "/tunnels", { name: "Evil", port: app.port })
  const cookie = await logIn(gateway)
  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${gateway.url}${path}`, {
      headers: { cookie, accept: "text/html", ...headers },
      redirect: "manual",
    })
  return { gateway, get }
}

const SANDBOX = /(?:^|, )sandbox (?!.*allow-same-origin).*allow-scripts/

test("a page of a path tunnel gets an opaque origin, and its own policy stays in force", async () => {
  const { get } = await start()
  const policy = (await get("/t/Evil/")).headers.get("content-security-policy") ?? ""
  expect(policy).toMatch(SANDBOX)
  expect(policy).toContain("script-src 'self'")
})

test("every file of a path tunnel gets an opaque origin, because an SVG or XML file can run scripts too", async () => {
  const { get } = await start()
  const response = await get("/t/Evil/x.svg", { accept: "*/*" })
  expect(response.headers.get("content-security-policy")).toMatch(SANDBOX)
})

test("a page of a port that the editor forwards gets an opaque origin, the editor itself does not", async () => {
  const { get } = await start()
  for (const path of ["/vscode/proxy/3000/", "/vscode/absproxy/3000/"]) {
    expect((await get(path)).headers.get("content-security-policy")).toMatch(SANDBOX)
  }
  const own = (await get("/vscode/")).headers.get("content-security-policy") ?? ""
  expect(own).toBe("script-src 'self', frame-ancestors 'self' https://app.example.com")
})

test("only the known pages and the gateway itself may show the editor in a frame, and an app behind a tunnel decides for itself", async () => {
  const policyAt = async (path: string, change: Parameters<typeof start>[0]) => {
    const response = await (await start(change)).get(path)
    return response.headers.get("content-security-policy")
  }
  const allowedOrigins = ["http://sandpiper.localhost:8787", "https://app.example.com"]
  expect(await policyAt("/vscode/", { allowedOrigins })).toContain(
    "frame-ancestors 'self' http://sandpiper.localhost:8787 https://app.example.com",
  )
  expect(await policyAt("/vscode/", { allowedOrigins: [] })).not.toContain("frame-ancestors")
  expect(await policyAt("/t/Evil/", { allowedOrigins })).not.toContain("frame-ancestors")
})

test("with SANDBOX_ORIGIN a page of a path tunnel is redirected to its own host with a ticket that opens only this host", async () => {
  const { gateway, get } = await start({ sandboxOrigin: "https://*--s1.example.com" })
  const redirected = await get("/t/Evil/deep/?a=1")
  expect(redirected.status).toBe(302)
  const location = new URL(redirected.headers.get("location") ?? "")
  expect(`${location.origin}${location.pathname}`).toBe("https://evil--s1.example.com/deep/")
  expect(location.searchParams.get("a")).toBe("1")
  const there = (host: string, search: string, cookie = "") =>
    fetch(`${gateway.url}/deep/${search}`, {
      headers: { host, accept: "text/html", cookie },
      redirect: "manual",
    })
  const opened = await there("evil--s1.example.com", location.search)
  expect(opened.status).toBe(302)
  expect(opened.headers.get("location")).toBe("/deep/?a=1")
  const cookie = opened.headers.get("set-cookie")?.split(";")[0] ?? ""
  const shown = await there("evil--s1.example.com", "?a=1", cookie)
  expect(shown.status).toBe(200)
  expect(shown.headers.get("content-security-policy")).toBe("script-src 'self'")
  const elsewhere = await fetch(`${gateway.url}/vscode/`, { headers: { cookie } })
  expect(elsewhere.status).toBe(401)
})

test("a host below localhost is used only by a client that is on this machine", async () => {
  const { gateway, get } = await start({ sandboxOrigin: "http://*--tunnel.localhost" })
  const local = await get("/t/Evil/")
  expect(local.headers.get("location")).toStartWith(
    `http://evil--tunnel.localhost:${gateway.port}/?ticket=`,
  )
  const remote = await get("/t/Evil/", { host: "sandbox.example.com" })
  expect([remote.status, remote.headers.get("location")]).toEqual([200, null])
  expect(remote.headers.get("content-security-policy")).toMatch(SANDBOX)
})

test("a program that fetches a path tunnel is not redirected", async () => {
  const { get } = await start({ sandboxOrigin: "https://*--s1.example.com" })
  expect((await get("/t/Evil/", { accept: "*/*" })).status).toBe(200)
})

test("ALLOW_SHARED_ORIGIN restores the shared origin", async () => {
  const { get } = await start({
    allowSharedOrigin: true,
    sandboxOrigin: "https://*--s1.example.com",
  })
  const response = await get("/t/Evil/")
  expect(response.status).toBe(200)
  expect(response.headers.get("content-security-policy")).toBe("script-src 'self'")
})

test("the settings keep the shared origin off and refuse an origin without a place for the name", () => {
  const read = (env: Record<string, string>) => {
    const invocation = readInvocation(["doctor"], env, "/")
    return invocation.want === "command" ? invocation.settings : undefined
  }
  expect(read({})?.allowSharedOrigin).toBe(false)
  expect(read({})?.sandboxOrigin).toBeUndefined()
  expect(read({ ALLOW_SHARED_ORIGIN: "1" })?.allowSharedOrigin).toBe(true)
  expect(read({ SANDBOX_ORIGIN: "https://*--s.example.com" })?.sandboxOrigin).toBeString()
  for (const wrong of ["https://s.example.com", "https://*.example.com", "*--s.example.com"]) {
    expect(() => read({ SANDBOX_ORIGIN: wrong })).toThrow("SANDBOX_ORIGIN")
  }
})

/** What a program of the agent answers that has taken the port of a server of the agent's user. */
const startHostileServer = () =>
  Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => {
      const headers = new Headers({
        "content-type": "text/html",
        "service-worker-allowed": "/",
        "clear-site-data": '"cookies", "storage"',
      })
      headers.append("set-cookie", "planted=1; Path=/")
      headers.append("set-cookie", "gateway_session=1; Path=/")
      return new Response("<script>1</script>", { headers })
    },
  })

test.each(["/api/git/repos", "/opencode/session"])(
  "a program in the place of the server behind %s gets an opaque origin, and clears, plants and widens nothing of the gateway's",
  async (path) => {
    const hostile = startHostileServer()
    const { get } = await start({
      v1Server: async () => ({ port: hostile.port ?? 0, token: "t" }),
      opencodePort: () => hostile.port,
    })
    const { headers, status } = await get(path)
    await hostile.stop(true)
    expect(status).toBe(200)
    expect(headers.get("content-security-policy")).toMatch(SANDBOX)
    expect(headers.get("clear-site-data")).toBeNull()
    expect(headers.get("service-worker-allowed") ?? "none").not.toBe("/")
    for (const cookie of headers.getSetCookie()) expect(cookie).not.toMatch(/; *path=\/(?:;|$)/i)
    expect(headers.getSetCookie().join()).not.toContain("gateway_session=1")
  },
)
