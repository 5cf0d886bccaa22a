/** A conversation of 10,000 messages in a real browser, at the page that the hub itself serves. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Browser, Page } from "playwright-core"
import { launchBrowser } from "../kit/browser.ts"
import { type LongConversation, startLongConversation } from "../kit/long-conversation.ts"
import { openPage, until } from "../kit/page.ts"
import { untilTrue } from "../kit/until-true.ts"

const MESSAGES = 10_000
/** The budget of the page's document. */
const NODES = 5000
let long: LongConversation
let browser: Browser
let page: Page
let problems: readonly string[]

beforeAll(async () => {
  long = await startLongConversation(MESSAGES)
  browser = await launchBrowser()
  const opened = await openPage(browser, long.newLink())
  page = opened.page
  problems = opened.problems
}, 300_000)
afterAll(async () => {
  await browser?.close()
  await long?.stop()
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
  const scroll = async () => {
    // Like the scrollbar, a long way in one step.
    await page.evaluate('document.querySelector("#log").scrollTop -= 2000')
    await page.evaluate("new Promise(requestAnimationFrame)")
    most = Math.max(most, await nodes())
    return (await oldest()) <= MESSAGES - 600
  }
  await untilTrue(scroll, "the message 600 before the end", 200_000)
  expect(most).toBeLessThan(NODES)
}, 240_000)

test("a message 9,000 before the end is found by its text, and its address opens the page there", async () => {
  const session = long.hub.hub.find("s1")
  const [hit] = session?.search("KINGFISHER", 10).hits ?? []
  expect(hit?.messageId).toBe("m999")
  const { origin } = new URL(page.url())
  await page.goto(`${origin}/c/s1/web:default#m=m999`)
  await until(page, `document.body.innerText.includes("answer 999 of the kingfisher")`)
  expect(await nodes()).toBeLessThan(NODES)
}, 120_000)
