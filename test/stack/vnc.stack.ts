/** The sandbox's screen in a browser: Xvfb, x11vnc, websockify and noVNC behind the gateway, checked by pixel colour. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { makeToken, startTestGateway, type TestGateway } from "../runner/gateway/kit.ts"
import { freePort } from "../kit/free-port.ts"
import { type Browser, listening, start, startBrowser, until } from "./kit.ts"

/** Xvfb takes a free one. */
let display = ""
const rawPort = freePort()
const webPort = freePort()
const running: { stop: () => Promise<void> }[] = []
let gateway: TestGateway
let browser: Browser

const paint = (colour: string) =>
  Bun.spawnSync(["xsetroot", "-display", display, "-solid", colour]).exitCode === 0

beforeAll(async () => {
  const screen = Bun.spawn(
    ["Xvfb", "-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp", "-noreset"],
    { stdin: "ignore", stdout: "pipe", stderr: "ignore" },
  )
  running.push({
    stop: async () => {
      // SIGTERM: a killed one leaves its lock and its socket.
      screen.kill("SIGTERM")
      await screen.exited
    },
  })
  const { value } = await screen.stdout.getReader().read()
  display = `:${new TextDecoder().decode(value).trim()}`
  await until(() => paint("red"), "the X display")
  running.push(
    start([
      "x11vnc",
      "-display",
      display,
      "-localhost",
      "-rfbport",
      String(rawPort),
      "-forever",
      "-shared",
      "-nopw",
      "-quiet",
    ]),
  )
  await listening(rawPort)
  running.push(
    start([
      "websockify",
      "--web",
      "/usr/share/novnc",
      `127.0.0.1:${webPort}`,
      `127.0.0.1:${rawPort}`,
    ]),
  )
  await listening(webPort)
  gateway = startTestGateway({ backends: { vscode: 1, vnc: webPort, ttyd: 3 } })
  browser = await startBrowser()
})

afterAll(async () => {
  await browser?.close()
  await gateway?.stop()
  for (const process of running.toReversed()) await process.stop()
})

/** The share of the canvas that has about this colour; 0 for a blank or missing canvas. */
const shareOf = (red: number, green: number, blue: number) => `(() => {
  const canvas = document.querySelector("canvas")
  if (!canvas || canvas.width < 600) return 0
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
  let same = 0
  for (let at = 0; at < data.length; at += 4) {
    const off = Math.abs(data[at] - ${red}) + Math.abs(data[at + 1] - ${green}) + Math.abs(data[at + 2] - ${blue})
    if (off < 30) same += 1
  }
  return same / (data.length / 4)
})()`

test("the browser shows the screen and its changes", async () => {
  const page = await browser.newPage()
  await page.goto(
    `${gateway.url}/vnc/vnc.html?path=vnc/websockify&autoconnect=true&token=${makeToken()}`,
  )
  expect(page.url()).not.toContain("token=")
  await page.waitForFunction(`${shareOf(255, 0, 0)} > 0.9`, undefined, { timeout: 30_000 })
  expect(paint("blue")).toBe(true)
  await page.waitForFunction(`${shareOf(0, 0, 255)} > 0.9`, undefined, { timeout: 30_000 })
  await page.close()
})

test("a browser without a token gets an error page instead of the screen", async () => {
  const page = await browser.newPage()
  await page.goto(`${gateway.url}/vnc/vnc.html?path=vnc/websockify&autoconnect=true`)
  expect(await page.textContent("h1")).toContain("A token is missing")
  await page.close()
})
