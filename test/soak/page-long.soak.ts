/** A conversation of 10,000 messages in a real browser, at the page that the hub itself serves. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Browser, Page } from "playwright-core"
import { servePage } from "../../src/cli/serve-page.ts"
import { loadPageFiles } from "../../src/hub/page-files.ts"
import { launchBrowser } from "../kit/browser.ts"
import { openPage, until } from "../kit/page.ts"
import { CLIENT_TOKEN, startTestHub, type TestHub } from "../hub/kit/hub.ts"

const MESSAGES = 10_000
/** The budget of the page's document. */
const NODES = 5000
let stateDir: string
let hub: TestHub
let browser: Browser
let page: Page
let problems: readonly string[]

beforeAll(async () => {
  stateDir = await mkdtemp(join(tmpdir(), "page-long-"))
  const settings = { stateDir, pageOrigin: "http://sandpiper.localhost", sandboxOrigin: undefined }
  const served = servePage(settings, await loadPageFiles(), CLIENT_TOKEN)
  if (!served) throw new Error("the page is not built")
  hub = await startTestHub({ stateDir, page: served })
  const session = hub.hub.find("s1")
  for (let index = 0; index < MESSAGES; index += 1)
    session?.note({
      id: `m${index}`,
      role: index % 2 === 0 ? "user" : "assistant",
      content:
        index % 2 === 0
          ? `question ${index}`
          : `answer ${index}${index === 999 ? " of the kingfisher" : ""}\n\n- one\n- two\n\n\`\`\`ts\nconst a = ${index}\n\`\`\``,
    })
  browser = await launchBrowser()
  const opened = await openPage(browser, served.newLink(hub.hub.port))
  page = opened.page
  problems = opened.problems
}, 300_000)
afterAll(async () => {
  await browser.close()
  await hub.stop()
  await rm(stateDir, { recursive: true, force: true })
})

const nodes = () => page.evaluate<number>("document.querySelectorAll('*').length")

test("the page opens at the newest of 10,000 messages, and its document is small", async () => {
  await page.getByText(`answer ${MESSAGES - 1}`, { exact: true }).waitFor({ timeout: 60_000 })
  expect(await nodes()).toBeLessThan(NODES)
  expect(problems).toEqual([])
})

test("scrolling up loads older messages, and the document stays small", async () => {
  const oldest = () =>
    page.evaluate<number>(
      `Math.min(...[...document.querySelectorAll(".bubble-text")].map((one) => Number(one.textContent.replace(/\\D/g, ""))))`,
    )
  let most = 0
  while ((await oldest()) > MESSAGES - 600) {
    // Like the scrollbar, a long way in one step.
    await page.evaluate('document.querySelector("#log").scrollTop -= 2000')
    await page.waitForTimeout(20)
    most = Math.max(most, await nodes())
  }
  expect(most).toBeLessThan(NODES)
}, 240_000)

test("a message 9,000 before the end is found by its text, and its address opens the page there", async () => {
  const session = hub.hub.find("s1")
  const [hit] = session?.search("KINGFISHER", 10).hits ?? []
  expect(hit?.messageId).toBe("m999")
  const { origin } = new URL(page.url())
  await page.goto(`${origin}/c/s1/web:default#m=m999`)
  await until(page, `document.body.innerText.includes("answer 999 of the kingfisher")`, 60_000)
  expect(await nodes()).toBeLessThan(NODES)
}, 120_000)
