/** The views of the page have no violation that axe-core finds, in light and in dark, on a desktop and on a phone. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Page } from "playwright-core"
import { settled, violations } from "../kit/axe.ts"
import { type PageStage, startPage, until } from "../kit/page.ts"

let stage: PageStage
beforeAll(async () => {
  stage = await startPage()
  const { page, context } = await stage.open()
  for (const text of ["think", "plan", "write: notes.txt", "ask"]) {
    await page.locator("#prompt").fill(text)
    await page.locator("#prompt").press("Enter")
    if (text === "ask") await page.locator("[data-option='1']").waitFor()
    else await until(page, `!document.querySelector(".status, .is-pending")`)
  }
  await context.close()
}, 120_000)
afterAll(() => stage.stop())

const views: readonly (readonly [string, (page: Page) => Promise<unknown>])[] = [
  ["a question", (page) => page.locator("[data-option='1']").waitFor()],
  [
    "the changes",
    async (page) => {
      await page.goto(`${page.url()}?panel=changes`)
      await page.locator(".panel-body").first().waitFor()
    },
  ],
  [
    "the settings",
    async (page) => {
      await page.keyboard.press("Control+,")
      await page.locator("dialog.settings").waitFor()
    },
  ],
  [
    "the search",
    async (page) => {
      await page.keyboard.press("Escape")
      await page.keyboard.press("Control+k")
      await page.locator("dialog.palette").waitFor()
    },
  ],
]

test.each([
  ["light", 1440],
  ["dark", 390],
] as const)("axe-core finds nothing in %s at %d pixels", async (colorScheme, width) => {
  const { page, context } = await stage.open({
    colorScheme,
    viewport: { width, height: 844 },
    bypassCSP: true,
  })
  for (const [name, show] of views) {
    await show(page)
    await settled(page)
    expect([name, ...(await violations(page))]).toEqual([name])
  }
  await context.close()
})
