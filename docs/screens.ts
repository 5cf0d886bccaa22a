/** Makes the pictures in `docs/screens` from the real page: `npm run build`, then `bun docs/screens.ts`. */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { type PageStage, startPage, until } from "../test/kit/page.ts"

type Page = Awaited<ReturnType<PageStage["open"]>>["page"]

const folder = join(import.meta.dir, "screens")
mkdirSync(folder, { recursive: true })

const stage = await startPage()
const settle = (page: Page) => until(page, `!document.querySelector(".status, .is-pending")`)
const send = async (page: Page, text: string) => {
  await page.locator("#prompt").fill(text)
  await page.locator("#prompt").press("Enter")
}

const first = await stage.open()
await first.page.screenshot({ path: join(folder, "desktop-light-empty.png") })
for (const text of ["think", "plan", "run: ls -la", "write: notes.md"]) {
  await send(first.page, text)
  await first.page.locator(".prompt").last().waitFor()
  await settle(first.page)
}
await send(first.page, "ask")
await first.page.locator("[data-option='1']").waitFor()
await first.context.close()

const sizes = {
  desktop: { width: 1440, height: 900 },
  phone: { width: 390, height: 844 },
} as const

for (const [device, viewport] of Object.entries(sizes)) {
  for (const colorScheme of ["light", "dark"] as const) {
    const { page, context } = await stage.open({
      viewport,
      colorScheme,
      deviceScaleFactor: device === "phone" ? 2 : 1,
    })
    const shoot = async (name: string) => {
      await page.waitForTimeout(500)
      await page.screenshot({ path: join(folder, `${device}-${colorScheme}-${name}.png`) })
    }
    await page.locator("[data-option='1']").waitFor()
    await shoot("question")
    await page.goto(`${page.url()}?panel=changes`)
    await page.locator(".file, .empty b").first().waitFor()
    await shoot("changes")
    await page.keyboard.press("Control+,")
    await shoot("settings")
    await context.close()
  }
}
await stage.stop()
