/** Makes the pictures in `docs/screens` from the real page: `npm run build`, then `bun docs/screens.ts`. */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { startScriptedModel } from "../test/kit/model.ts"
import { type OpenedPage, sendPrompt, startPage, turnIsOver } from "../test/kit/page.ts"
import { furnish, script } from "./screens-script.ts"

const folder = join(import.meta.dir, "screens")
mkdirSync(folder, { recursive: true })

const model = await startScriptedModel({ title: "Refused requests must not renew the cookie" })
const stage = await startPage({}, { model, furnish })
const held = Promise.withResolvers<void>()
script(model, stage.sandbox.workDir, held.promise)

const sizes = {
  desktop: { width: 1440, height: 900 },
  tablet: { width: 900, height: 1100 },
  phone: { width: 390, height: 844 },
} as const
const at = (name: string, panel = "") => `${stage.origin}/c/local/web:${name}${panel}`

const screens: readonly (OpenedPage & { readonly name: string })[] = await Promise.all(
  Object.entries(sizes).flatMap(([device, viewport]) =>
    (["light", "dark"] as const).map(async (colorScheme) => ({
      ...(await stage.open({
        viewport,
        colorScheme,
        deviceScaleFactor: device === "phone" ? 2 : 1,
        hasTouch: device === "phone",
      })),
      name: `${device}-${colorScheme}`,
    })),
  ),
)
const [person] = screens
if (!person) throw new Error("no screen was opened")

/** Takes a picture on every screen, or on those whose name starts with one of `only`. */
const shoot = async (
  name: string,
  show: (page: OpenedPage["page"]) => Promise<unknown>,
  only: readonly string[] = ["desktop", "tablet", "phone"],
): Promise<void> => {
  for (const screen of screens) {
    if (!only.some((start) => screen.name.startsWith(start))) continue
    await show(screen.page)
    // Colours of code and the motion of drawers come a moment later.
    await screen.page.waitForTimeout(600)
    await screen.page.screenshot({ path: join(folder, `${screen.name}-${name}.png`) })
  }
}

await shoot("empty", async (page) => {
  await page.goto(at("empty"))
  await page.locator(".greeting").waitFor()
})
await person.page.goto(at("default"))
await sendPrompt(
  person.page,
  "A refused request must not renew the cookie. Find out why it does, and fix it. @@renewal@@",
)
await person.page.locator(".turn-foot").waitFor()
await shoot("done", async (page) => {
  await page.goto(at("default"))
  await page.locator(".turn-foot").waitFor()
})
await shoot(
  "tools",
  async (page) => {
    await page.goto(at("default"))
    await page.locator(".turn-foot").waitFor()
    await page.evaluate(`document.querySelector("#log").scrollTop = 0`)
  },
  ["desktop", "phone"],
)
await shoot("changes", async (page) => {
  await page.goto(at("default", "?panel=changes"))
  await page.locator(".file .diff-table").first().waitFor()
})
await sendPrompt(person.page, "Do the same for tickets. @@tickets@@")
await person.page.locator(".prose", { hasText: "Looking at it now" }).waitFor()
await sendPrompt(person.page, "Also add a line to CHANGELOG.md")
await person.page.locator(".queue-row").waitFor()
await shoot("live", async (page) => {
  await page.goto(at("default"))
  await page.locator(".queue-row").waitFor()
})
await person.page.goto(at("default"))
held.resolve()
await turnIsOver(person.page, "Also add a line to CHANGELOG.md")
await person.page.goto(at("release"))
await sendPrompt(person.page, "Prepare the release. @@release@@")
await person.page.locator("[data-option='1']").waitFor()
await shoot("question", async (page) => {
  await page.goto(at("default"))
  await page.locator("[data-option='1']").waitFor()
})
await shoot(
  "settings",
  async (page) => {
    await page.goto(at("default"))
    await page.locator("#prompt").waitFor()
    await page.keyboard.press("Control+,")
    await page.locator("dialog.settings").waitFor()
  },
  ["desktop", "phone"],
)
await shoot(
  "search",
  async (page) => {
    await page.goto(at("default"))
    await page.locator("#prompt").waitFor()
    await page.keyboard.press("Control+k")
    await page.locator("dialog.palette input").fill("renew")
    await page.locator(".palette-row mark").first().waitFor()
  },
  ["desktop"],
)
await shoot(
  "sessions",
  async (page) => {
    await page.goto(at("default"))
    await page.getByRole("button", { name: "Show the conversations" }).click()
    await page.locator(".row").first().waitFor()
  },
  ["phone"],
)
await stage.stop()
await model.stop()
