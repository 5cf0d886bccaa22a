/** A terminal in a browser through the gateway: typed commands run and their output is shown. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { WebSocket } from "ws"
import { logIn, makeToken, startTestGateway, type TestGateway } from "../runner/gateway/kit.ts"
import { type Browser, startBrowser } from "./kit.ts"
import { startTtydDouble, type TtydDouble } from "./ttyd-double.ts"

let ttyd: TtydDouble
let gateway: TestGateway
let browser: Browser

beforeAll(async () => {
  ttyd = await startTtydDouble(["sh", "-i"])
  gateway = startTestGateway({ backends: { vscode: 1, vnc: 2, ttyd: ttyd.port } })
  browser = await startBrowser()
})

afterAll(async () => {
  await browser?.close()
  await gateway?.stop()
  await ttyd?.stop()
})

test("a command typed in the browser terminal runs in the sandbox and its output is shown", async () => {
  const page = await browser.newPage()
  await page.goto(`${gateway.url}/ttyd/?token=${makeToken()}`)
  expect(page.url()).toBe(`${gateway.url}/ttyd/`)
  const shows = (text: string) =>
    page.waitForFunction(
      `document.getElementById("out").textContent.includes(${JSON.stringify(text)})`,
      undefined,
      { timeout: 15_000 },
    )
  await page.waitForFunction('document.title === "sh (sandbox)"')
  await page.evaluate('type("echo $((6 * 7)) is the answer\\n")')
  await shows("42 is the answer")
  await page.evaluate("resize(123, 45)")
  await page.evaluate('type("stty size\\n")')
  await shows("45 123")
  await page.evaluate('type("exit\\n")')
  await page.waitForFunction('document.body.dataset.closed === "1006"')
  await page.close()
})

test("10 MB of terminal output arrive completely", async () => {
  const cookie = await logIn(gateway)
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/ttyd/ws`, ["tty"], {
    headers: { cookie },
  })
  let seen = 0
  const over = Promise.withResolvers<void>()
  socket.on("message", (data: Buffer) => {
    for (const byte of data) if (byte === 126) seen += 1
  })
  socket.on("close", () => over.resolve())
  await new Promise((resolve) => socket.once("open", resolve))
  socket.send(JSON.stringify({ AuthToken: "", columns: 80, rows: 24 }))
  socket.send(`0head -c 10000000 /dev/zero | tr '\\0' '\\176'; exit\n`)
  await over.promise
  expect(seen).toBe(10_000_000)
})
