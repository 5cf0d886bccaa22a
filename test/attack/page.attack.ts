/**
 * A hostile page in Chromium against a real runner: the gateway, OpenCode, the key broker and the control server. The page has
 * a name of its own that comes to lead to this machine (DNS rebinding), and a person is logged in in the same browser.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { type Browser, chromium, type Page } from "playwright-core"
import { type Conversation, leaveEmpty, startConversation } from "../kit/conversation.ts"
import { agentPid } from "../kit/processes.ts"
import { makeToken } from "../runner/gateway/kit.ts"

let c: Conversation
let browser: Browser
let page: Page
let gateway = 0
let ports: Readonly<Record<string, number>>

/** The terminal's place in the gateway: a client that opens its WebSocket has a shell. */
const shell = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request, server) =>
    server.upgrade(request, { data: undefined }) ? undefined : new Response("a shell"),
  websocket: { message: () => {} },
})

beforeAll(async () => {
  const environment = { TTYD_PORT: String(shell.port), VSCODE_PORT: String(shell.port) }
  c = await startConversation(environment, { furnish: leaveEmpty })
  const { stateDir, environment: own } = c.runner.sandbox
  gateway = Number(new URL(c.runner.gatewayUrl).port)
  const command = (await readFile(`/proc/${agentPid(c.runner)}/cmdline`, "utf8")).split("\0")
  const config = await readFile(join(stateDir, "session/opencode/config/opencode.json"), "utf8")
  ports = {
    gateway,
    opencode: Number(command[command.indexOf("--port") + 1]),
    broker: Number(/127\.0\.0\.1:(\d+)\/scripted/.exec(config)?.[1]),
    control: Number(new URL(await readFile(join(stateDir, "session/control-url"), "utf8")).port),
  }
  const executablePath = Bun.which("chromium")
  if (executablePath === null) throw new Error("install chromium, or leave this attack out")
  browser = await chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP evil.example 127.0.0.1"],
  })
  page = await browser.newPage()
  // The person's own login.
  const claims = { sid: own["SESSION_ID"] }
  const token = makeToken({ secret: own["JWT_SECRET"] ?? "", claims })
  await page.goto(`http://127.0.0.1:${gateway}/ttyd/?token=${token}`)
  expect(await page.textContent("body")).toBe("a shell")
  // The first answer under the hostile name comes from the attacker; all later ones from this machine.
  await page.route(
    ({ hostname, pathname }) => hostname === "evil.example" && pathname === "/start",
    (route) => route.fulfill({ contentType: "text/html", body: "<title>evil</title>" }),
  )
})

afterAll(async () => {
  await browser?.close()
  await c?.stop()
  await shell.stop(true)
})

/** The status of each request whose response a page can read. */
const readable = (origin: string) =>
  page.evaluate(async (base) => {
    const paths = [
      ..."/ /config /config/providers /session /upstreams /stop /models /scripted/models".split(
        " ",
      ),
      ..."/hooks/pre-snapshot /workflow /git-credential /ready /metrics /vscode/ /ttyd/".split(" "),
      ..."/api/tunnels /api/secrets/list /opencode/config".split(" "),
    ]
    const calls = paths.flatMap((path) => ["GET", "POST"].map((method) => ({ method, path })))
    const read = await Promise.all(
      calls.map(async ({ method, path }) => {
        const call = {
          method,
          credentials: "include" as const,
          ...(method === "POST" && { body: "{}" }),
        }
        const response = await fetch(base + path, call).catch(() => undefined)
        return response?.ok === true ? `${method} ${path} ${response.status}` : ""
      }),
    )
    return read.filter((text) => text !== "")
  }, origin)

/** The WebSockets that open for a page. */
const openable = (origin: string) =>
  page.evaluate(async (base) => {
    const opened = await Promise.all(
      ["/ttyd/ws", "/vscode/", "/ws", "/sessions/s1/ws?role=client"].map(
        (path) =>
          new Promise<string>((resolve) => {
            const socket = new WebSocket(base.replace("http", "ws") + path, [])
            socket.addEventListener("open", () => resolve(`WebSocket ${path}`))
            socket.addEventListener("error", () => resolve(""))
          }),
      ),
    )
    return opened.filter((text) => text !== "")
  }, origin)

/** What a page gets: responses and WebSockets. */
const attack = async (origin: string) => [...(await readable(origin)), ...(await openable(origin))]

test.each(["gateway", "opencode", "broker", "control"])(
  "a page whose name comes to lead to this machine reads nothing of the %s and opens no WebSocket there",
  async (name) => {
    const origin = `http://evil.example:${ports[name]}`
    await page.goto(`${origin}/start`)
    expect(await page.title()).toBe("evil")
    expect(await attack(origin)).toEqual([])
  },
)

test("a page of another site reads nothing of the gateway with the person's cookie and opens no WebSocket", async () => {
  await page.goto(`http://evil.example:${shell.port}/start`)
  expect(await attack(`http://127.0.0.1:${gateway}`)).toEqual([])
})

test("the person's own page reaches the terminal, so the attacks have had something to reach", async () => {
  await page.goto(`http://127.0.0.1:${gateway}/ttyd/`)
  expect(await openable(`http://127.0.0.1:${gateway}`)).toContain("WebSocket /ttyd/ws")
})
