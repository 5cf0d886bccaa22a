/** A Vite development server behind a tunnel with its own host name: page, modules and hot update. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { api, makeToken, startTestGateway, type TestGateway } from "../runner/gateway/kit.ts"
import { freePort } from "../kit/free-port.ts"
import { type Browser, listening, start, startBrowser, temporaryDirectory } from "./kit.ts"
import { viteProgram } from "./places.ts"

let project: Awaited<ReturnType<typeof temporaryDirectory>>
let vite: { stop: () => Promise<void> }
let gateway: TestGateway
let browser: Browser

const write = (name: string, text: string) => Bun.write(join(project.path, name), text)
const message = (text: string) => `export const message = ${JSON.stringify(text)}\n`

beforeAll(async () => {
  project = await temporaryDirectory()
  await mkdir(join(project.path, "src"))
  await write("package.json", '{"type":"module"}')
  await write(
    "index.html",
    '<!doctype html><h1 id="app"></h1><script type="module" src="/src/main.js"></script>',
  )
  await write(
    "src/main.js",
    `import { message } from "./message.js"
const show = (text) => { document.getElementById("app").textContent = text }
show(message)
window.loads = (window.loads ?? 0) + 1
import.meta.hot.accept("./message.js", (updated) => show(updated.message))
`,
  )
  await write("src/message.js", message("before"))
  const port = freePort()
  vite = start(
    [process.execPath, viteProgram, "--port", String(port), "--strictPort", "--host", "127.0.0.1"],
    {
      cwd: project.path,
    },
  )
  gateway = startTestGateway()
  await api(gateway, "POST", "/tunnels", { name: "web", port })
  browser = await startBrowser()
  await listening(port)
}, 60_000)

afterAll(async () => {
  await browser?.close()
  await gateway?.stop()
  await vite?.stop()
  await project?.remove()
})

test("a changed module updates the open page without a reload", async () => {
  const page = await browser.newPage()
  const sockets: string[] = []
  page.on("websocket", (socket: { url: () => string }) => void sockets.push(socket.url()))
  await page.goto(`http://web--sandbox.localhost:${gateway.port}/?token=${makeToken()}`)
  expect(page.url()).toBe(`http://web--sandbox.localhost:${gateway.port}/`)
  const shows = (text: string) =>
    page.waitForFunction(
      `document.getElementById("app").textContent === ${JSON.stringify(text)}`,
      undefined,
      { timeout: 20_000 },
    )
  await shows("before")
  await page.waitForFunction("performance.now() > 500")
  await write("src/message.js", message("after"))
  await shows("after")
  expect(await page.evaluate<number>("window.loads")).toBe(1)
  expect(
    sockets.some((url) => url.startsWith(`ws://web--sandbox.localhost:${gateway.port}/`)),
  ).toBe(true)
  const cookies = await page.context().cookies()
  expect(cookies).toMatchObject([{ name: "gateway_session", httpOnly: true, sameSite: "Lax" }])
  expect(await page.evaluate<string>("document.cookie")).toBe("")
  await page.close()
})
