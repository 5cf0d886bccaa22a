/** VS Code in a browser through the gateway: a file is opened, edited and saved to the disk. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { acceptsConnections } from "../../src/runner/host/stale-locks.ts"
import { makeToken, startTestGateway, type TestGateway } from "../runner/gateway/kit.ts"
import { freePort } from "../kit/free-port.ts"
import { type Browser, start, startBrowser, temporaryDirectory, until } from "./kit.ts"
import { codeServer, node24 } from "./places.ts"

let home: Awaited<ReturnType<typeof temporaryDirectory>>
let vscode: { stop: () => Promise<void> }
let gateway: TestGateway
let browser: Browser
let file = ""
let workspace = ""
/** When the gateway reported that people work. */
const reports: number[] = []
let page: Awaited<ReturnType<Browser["newPage"]>>

beforeAll(async () => {
  home = await temporaryDirectory()
  workspace = join(home.path, "workspace")
  file = join(workspace, "note.txt")
  await Bun.write(file, "as it was\n")
  await Bun.write(
    join(home.path, "data/User/settings.json"),
    '{"workbench.startupEditor":"none","security.workspace.trust.enabled":false,"files.autoSave":"off","chat.disableAIFeatures":true}',
  )
  const port = freePort()
  const socket = join(home.path, "code-server.sock")
  const options = [
    "--auth",
    "none",
    // As the runner starts it.
    "--socket",
    socket,
    "--socket-mode",
    "600",
    "--disable-telemetry",
    "--disable-update-check",
  ]
  const folders = [
    "--user-data-dir",
    join(home.path, "data"),
    "--extensions-dir",
    join(home.path, "extensions"),
  ]
  vscode = start(
    [
      join(node24.home, "bin/node"),
      codeServer.program,
      ...options,
      "--disable-workspace-trust",
      ...folders,
      workspace,
    ],
    { env: { HOME: home.path } },
  )
  gateway = startTestGateway({
    backends: { vscode: port, vnc: 2, ttyd: 3 },
    backendSockets: new Map([[port, socket]]),
    onUsed: () => reports.push(Date.now()),
  })
  browser = await startBrowser()
  await until(async () => acceptsConnections(socket), "code-server")
})

afterAll(async () => {
  await browser?.close()
  await gateway?.stop()
  await vscode?.stop()
  await home?.remove()
})

test("a file edited and saved in the browser is changed on the disk", async () => {
  page = await browser.newPage({ viewport: { width: 1200, height: 800 } })
  const sockets: string[] = []
  page.on("websocket", (socket: { url: () => string }) => void sockets.push(socket.url()))
  await page.goto(`${gateway.url}/vscode/?folder=${workspace}&token=${makeToken()}`)
  const row = '.explorer-viewlet [aria-label^="note.txt"]'
  await page.waitForSelector(row, { timeout: 90_000 })
  await page.click(row, { clickCount: 2 })
  await page.waitForSelector(".monaco-editor .view-lines", { timeout: 30_000 })
  await page.click(".monaco-editor .view-lines")
  await page.keyboard.press("Control+End")
  await page.keyboard.type("written through the gateway")
  await page.keyboard.press("Control+S")
  await until(
    async () => (await Bun.file(file).text()).includes("written through the gateway"),
    "the file is saved",
    30,
  )
  expect(await Bun.file(file).text()).toStartWith("as it was\n")
  expect(sockets.filter((url) => url.includes("/vscode/")).length).toBeGreaterThanOrEqual(2)
  expect(sockets.join()).not.toContain("token=")
}, 180_000)

test("an editor that is only open is not reported as work, and typing in it is", async () => {
  // The editor loads its extensions for a while. The gateway looks every half minute.
  const opened = Date.now()
  await until(() => Date.now() - Math.max(opened, ...reports) > 65_000, "an idle editor", 170)
  const before = reports.length
  await until(async () => {
    await page.keyboard.type("more words ", { delay: 50 })
    return reports.length > before
  }, "report of the typing")
  expect(reports.length).toBe(before + 1)
  await page.close()
}, 240_000)
