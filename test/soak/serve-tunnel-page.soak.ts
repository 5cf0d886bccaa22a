/** A hostile page behind a tunnel of `serve`, which is of the same site as the page of `serve`, in a browser that has logged in. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Browser, BrowserContext, Frame, Page } from "playwright-core"
import { type Aim, ATTACK, REFUSED } from "../e2e/page/hostile-page.ts"
import { launchBrowser } from "../kit/browser.ts"
import { freePort } from "../kit/free-port.ts"
import { openPage } from "../kit/page.ts"
import { createSandbox, type Sandbox } from "../kit/runner.ts"
import {
  askDemo,
  frameAtBox,
  frameOf,
  type ServeProcess,
  sessionAt,
  startServeProcess,
} from "../kit/serve-process.ts"
import { untilTrue, WAIT_MS } from "../kit/until-true.ts"

let place: Sandbox
let browser: Browser | undefined
let serve: ServeProcess
let page: Page
let context: BrowserContext
let aim: Aim

const evil = Bun.serve({
  hostname: "127.0.0.1",
  port: freePort(),
  fetch: () =>
    new Response("<!doctype html><title>evil</title><body>evil", {
      headers: { "content-type": "text/html" },
    }),
})

beforeAll(async () => {
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  serve = await startServeProcess(place, { SANDBOX_ISOLATION: "none", SANDPIPER_SERVICES: "" })
  browser = await launchBrowser()
  const opened = await openPage(browser, serve.link())
  page = opened.page
  context = opened.context
  const body = JSON.stringify({ name: "web", port: evil.port })
  await askDemo(
    page,
    `run: curl -sS -H "authorization: Bearer $SANDPIPER_API_TOKEN" -H "content-type: application/json" -d '${body}' $SANDPIPER_URL/api/tunnels`,
  )
  // The person has a terminal of this sandbox: there are cookies for it and something to drive.
  await frameOf(page, "terminal")
  const terminal = await frameAtBox(page, ({ hash }) => hash.length > 1)
  const { origin, hash } = new URL(terminal.url())
  aim = {
    page: new URL(page.url()).origin,
    box: origin,
    session: sessionAt(page),
    permission: "none",
    terminal: hash.slice(1),
    collector: `http://sandpiper.localhost:${evil.port}`,
  }
}, 200_000)
afterAll(async () => {
  try {
    await browser?.close()
    await serve.stop()
  } finally {
    await evil.stop(true)
    await place.remove()
  }
})

/** The hostile page in the preview of the page, and in a tab of its own. */
const hostileFrames = async (): Promise<readonly [Frame, Page]> => {
  const preview = await frameOf(page, "preview")
  await preview.getByText("evil").waitFor({ timeout: WAIT_MS })
  const tab = await context.newPage()
  await tab.goto(preview.url())
  await tab.getByText("evil").waitFor()
  expect(new URL(tab.url()).host).toBe(`web--${new URL(aim.box).host}`)
  return [preview, tab]
}

test("a page of a tunnel reads nothing of the page and of the hub, and drives no terminal", async () => {
  const [preview, tab] = await hostileFrames()
  const before = page.url()
  for (const frame of [preview, tab.mainFrame()])
    expect(
      await frame.evaluate<Record<string, string>>(`(${ATTACK})(${JSON.stringify(aim)})`),
    ).toMatchObject(REFUSED)
  expect(page.url()).toBe(before)
  await tab.close()
  // The same function in the page's own origin reads the session, so the attempts are real.
  expect(
    await page.evaluate<Record<string, string>>(`(${ATTACK})(${JSON.stringify(aim)})`),
  ).toMatchObject({ storage: "got in", readHub: "got in", approveBySocket: "got in" })
}, 200_000)

test("a page of a tunnel cannot show the page or a terminal in a frame, nor keep a hand on a window of the page", async () => {
  const [, tab] = await hostileFrames()
  const shown = async (url: string) => {
    await tab.evaluate(`document.body.append(Object.assign(document.createElement("iframe"),
      { src: ${JSON.stringify(url)} }))`)
    const last = () => tab.frames().at(-1)?.url() ?? ""
    await untilTrue(() => last() !== "" && last() !== "about:blank", "the frame has loaded")
    return last()
  }
  expect(await shown(`${aim.page}/`)).toStartWith("chrome-error:")
  expect(await shown(`${aim.box}/terminal/`)).toStartWith("chrome-error:")
  const opening = context.waitForEvent("page")
  await tab.evaluate(`window.opened = open(${JSON.stringify(`${aim.page}/`)})`)
  const window = await opening
  await window.locator("#prompt").waitFor()
  expect(await window.evaluate("window.opener === null")).toBe(true)
  expect(await tab.evaluate("window.opened.closed")).toBe(true)
  await window.close()
  await tab.close()
}, 200_000)

test("cookies that a page of a tunnel sets for the page's host lock nobody out", async () => {
  const [preview, tab] = await hostileFrames()
  const parts = ["hub", "sessions", aim.session ?? "", "ws"]
  const paths = parts.flatMap((_, index) => {
    const path = `/${parts.slice(0, index + 1).join("/")}`
    return [path, `${path}/`]
  })
  // A partitioned cookie is a second one at the same path.
  const lines = ["/", ...paths].flatMap((path, index) =>
    ["", "; Secure; Partitioned"].map((more) => {
      const value = `${index}${more.length}`.padStart(64, "0")
      return `sandpiper_page=${value}; Domain=sandpiper.localhost; Path=${path}${more}`
    }),
  )
  for (const frame of [preview, tab.mainFrame()])
    await frame.evaluate(`for (const line of ${JSON.stringify(lines)}) document.cookie = line`)
  await tab.close()
  const sent = await context.cookies(`${aim.page}/hub/sessions/${aim.session}/ws`)
  expect(sent.filter(({ value }) => value.startsWith("0".repeat(60))).length).toBeGreaterThan(10)
  await page.goto(`${aim.page}/c/${aim.session}/web:default`)
  await page.locator("#prompt").fill("run: echo plover-$((6 * 7))")
  await page.keyboard.press("Enter")
  await page.locator(".log").getByText("plover-42").first().waitFor({ timeout: 100_000 })
}, 200_000)
