/** A hostile page below /t/evil/ in Chromium, opened by a person who is logged in: it cannot use the terminal. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { api, makeToken, startTestGateway, type TestGateway } from "../runner/gateway/kit.ts"
import { type Browser, startBrowser } from "./kit.ts"
import { startTtydDouble, type TtydDouble } from "./ttyd-double.ts"

/** Tries what a page of the same origin can do: a WebSocket, a request, a frame, a window, a service worker. */
const EVIL = `<!doctype html><title>evil</title><script>
  const gateway = new URLSearchParams(location.search).get("gateway")
  const tries = {
    socket: () => new Promise((resolve) => {
      const socket = new WebSocket("ws://" + gateway + "/ttyd/ws", ["tty"])
      socket.onopen = () => resolve("got in")
      socket.onerror = socket.onclose = () => resolve("refused")
    }),
    request: () => fetch("http://" + gateway + "/ttyd/", { credentials: "include" })
      .then((response) => response.ok ? "got in" : "refused", () => "refused"),
    frame: () => new Promise((resolve) => {
      const frame = document.createElement("iframe")
      frame.src = "http://" + gateway + "/ttyd/"
      frame.onload = () => {
        try { resolve(typeof frame.contentWindow.type === "function" ? "got in" : "refused") }
        catch { resolve("refused") }
      }
      document.documentElement.append(frame)
    }),
    worker: async () => {
      try { await navigator.serviceWorker.register("/t/evil/worker.js"); return "got in" }
      catch { return "refused" }
    },
    cookie: async () => {
      try { document.cookie = "gateway_session=junk; path=/"; return document.cookie === "" ? "refused" : "got in" }
      catch { return "refused" }
    },
  }
  const run = async () => {
    const results = {}
    for (const [name, attempt] of Object.entries(tries)) results[name] = await attempt()
    document.title = JSON.stringify(results)
  }
  run()
</script>`

let ttyd: TtydDouble
let app: ReturnType<typeof Bun.serve>
let browser: Browser
const gateways: TestGateway[] = []

beforeAll(async () => {
  ttyd = await startTtydDouble(["sh", "-i"])
  app = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: ({ url }) =>
      url.endsWith(".js")
        ? new Response("", { headers: { "content-type": "text/javascript" } })
        : new Response(EVIL, { headers: { "content-type": "text/html" } }),
  })
  browser = await startBrowser()
})

afterAll(async () => {
  await browser?.close()
  for (const gateway of gateways) await gateway.stop()
  await app?.stop(true)
  await ttyd?.stop()
})

/** Logs in to the terminal, then opens the hostile page in the same browser; returns what the page could do. */
const visit = async (change: Parameters<typeof startTestGateway>[0]) => {
  const gateway = startTestGateway({ backends: { vscode: 1, vnc: 2, ttyd: ttyd.port }, ...change })
  gateways.push(gateway)
  await api(gateway, "POST", "/tunnels", { name: "evil", port: app.port })
  const page = await browser.newPage()
  const origin = `http://localhost:${gateway.port}`
  await page.goto(`${origin}/ttyd/?token=${makeToken()}`)
  await page.waitForFunction('document.title === "sh (sandbox)"')
  await page.goto(`${origin}/t/evil/?gateway=localhost:${gateway.port}`)
  await page.waitForFunction('document.title.startsWith("{")', undefined, { timeout: 20_000 })
  const results = JSON.parse(await page.evaluate<string>("document.title")) as Record<
    string,
    string
  >
  const url = page.url()
  await page.close()
  return { results, url, origin }
}

const REFUSED = {
  socket: "refused",
  request: "refused",
  frame: "refused",
  worker: "refused",
  cookie: "refused",
}

test("a page below /t/evil/ cannot drive the terminal", async () => {
  const { results, url, origin } = await visit({})
  expect(url).toStartWith(`${origin}/t/evil/`)
  expect(results).toEqual(REFUSED)
})

test("a page of a tunnel with its own host cannot drive the terminal", async () => {
  const { results, url } = await visit({ sandboxOrigin: "http://*--tunnel.localhost" })
  expect(url).toMatch(/^http:\/\/evil--tunnel\.localhost:\d+\/\?gateway=/)
  // Its origin is its own, with workers and cookies that do not reach the gateway's host.
  expect(results).toMatchObject({ socket: "refused", request: "refused", frame: "refused" })
})

test("with ALLOW_SHARED_ORIGIN the same page gets in, so the attempts of this test are real", async () => {
  const { results } = await visit({ allowSharedOrigin: true })
  expect(results).toMatchObject({ socket: "got in", request: "got in", frame: "got in" })
})
