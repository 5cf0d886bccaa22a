import { expect, test } from "bun:test"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { chromium } from "playwright-core"
import { unpackBrowser } from "./packed-browser.ts"

test("two files that unpack the browser at the same time get one folder, and the browser shows letters that its fonts lack", async () => {
  const cache = await mkdtemp(join(tmpdir(), "packed-"))
  try {
    const folder = join(cache, "chromium")
    const [packed] = await Promise.all([unpackBrowser(folder), unpackBrowser(folder)])
    expect(await readdir(cache)).toEqual(["chromium"])
    const browser = await chromium.launch({
      executablePath: packed.executablePath,
      args: ["--no-sandbox", "--no-zygote", "--disable-gpu"],
      env: { ...process.env, ...packed.environment },
    })
    const page = await browser.newPage()
    await page.setContent("<p>a ✓ 你好 ⌘ 🎉</p>")
    await page.screenshot()
    expect(await page.locator("p").textContent()).toBe("a ✓ 你好 ⌘ 🎉")
    await browser.close()
  } finally {
    await rm(cache, { recursive: true, force: true })
  }
})
