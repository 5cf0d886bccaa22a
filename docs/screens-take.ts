/** Makes the pictures in `docs/screens` from the real page. `docs/screens.ts` starts it with the home of a person. */
import { mkdirSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startScriptedModel } from "../test/kit/model.ts"
import { type OpenedPage, sendPrompt, startPage, until } from "../test/kit/page.ts"
import { furnish, prompts, script, servePreview, titles } from "./screens-script.ts"

type Page = OpenedPage["page"]

const folder = join(import.meta.dir, "screens")
mkdirSync(folder, { recursive: true })
const wanted = process.argv.slice(2)

const home = await mkdtemp(join(tmpdir(), "sandpiper-screens-"))
// The fonts of the pictures: Inter where it is installed, for text that the page leaves to the system.
const fonts = join(home, "fonts.conf")
await Bun.write(
  fonts,
  `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><include>/etc/fonts/fonts.conf</include>
${["system-ui", "sans-serif"].map((name) => `<match><test name="family"><string>${name}</string></test><edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>`).join("")}
</fontconfig>`,
)
process.env["FONTCONFIG_FILE"] = fonts

/** The home directory that the pictures show; without one they show a temporary path. */
const ownHome = process.env["SCREENS_HOME"]
const preview = servePreview()
const model = await startScriptedModel({
  title: titles.default,
  models: {
    "coder-large": "Coder large",
    "coder-medium": "Coder medium",
    "coder-small": "Coder small",
  },
})
const stage = await startPage(
  {
    SANDPIPER_PERMISSIONS: "relay",
    PATH: `${join(home, "bin")}:${process.env["PATH"]}`,
    ...(ownHome && { HOME: ownHome }),
  },
  {
    model,
    furnish: ({ workDir }) => furnish({ workDir, home }),
    ...(ownHome && { directory: join(ownHome, "projects/shop") }),
  },
)
script(model, stage.sandbox, preview.port ?? 0)

const sizes = {
  desktop: { width: 1440, height: 900 },
  tablet: { width: 900, height: 1100 },
  phone: { width: 390, height: 844 },
} as const
const at = (name: string, panel?: string) =>
  `${stage.origin}/c/local/web:${name}${panel === undefined ? "" : `?panel=${panel}`}`

const screens: readonly (OpenedPage & { readonly name: string })[] = await Promise.all(
  Object.entries(sizes).flatMap(([device, viewport]) =>
    (["light", "dark"] as const).map(async (colorScheme) => ({
      ...(await stage.open({
        viewport,
        colorScheme,
        deviceScaleFactor: device === "phone" ? 2 : 1,
        hasTouch: device === "phone",
        locale: "en-GB",
      })),
      name: `${device}-${colorScheme}`,
    })),
  ),
)
const person = (await stage.open()).page

/** Takes a picture on every screen whose name starts with one of `on`. */
const shoot = async (
  name: string,
  show: (page: Page, device: string) => Promise<unknown>,
  on: readonly string[] = ["desktop", "phone"],
): Promise<void> => {
  if (wanted.length > 0 && !wanted.includes(name)) return
  for (const screen of screens.filter((one) => on.some((start) => one.name.startsWith(start)))) {
    await show(screen.page, screen.name.split("-", 1)[0] ?? "")
    // Colours of code and the motion of drawers come a moment later.
    await screen.page.waitForTimeout(700)
    await screen.page.screenshot({ path: join(folder, `${screen.name}-${name}.png`) })
  }
}
/** At the end of the conversation, which else opens where it was left. */
const shows = (url: string, selector: string) => async (page: Page) => {
  await page.goto(url)
  await page.locator(selector).first().waitFor()
  // The key that goes to the newest message; the focus stays in the prompt.
  await page.evaluate(
    `document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }))`,
  )
  await until(page, `!document.querySelector(".newest")`)
}
const isDesktop = (device: string) => device === "desktop"

/** Allows what the agent asks for until an expression is true in the page. */
const allowUntil = async (expression: string): Promise<void> => {
  for (;;) {
    const allow = person.getByRole("button", { name: "Allow once" })
    if (await allow.isVisible()) await allow.click({ timeout: 2000 }).catch(() => undefined)
    if (await person.evaluate<boolean>(`Boolean(${expression})`)) return
    await person.waitForTimeout(100)
  }
}
const rename = (name: keyof typeof titles) =>
  person.evaluate(
    `fetch("/hub/sessions/local/rename", {
      method: "POST",
      headers: { "x-sandpiper-key": localStorage.getItem("key"), "content-type": "application/json" },
      body: ${JSON.stringify(JSON.stringify({ title: titles[name], channel: `web:${name}` }))},
    })`,
  )
const tell = async (name: keyof typeof titles, prompt: string): Promise<void> => {
  await person.goto(at(name))
  await person.locator("#prompt").waitFor()
  await sendPrompt(person, prompt)
}
const OVER = `!document.querySelector(".status, .is-pending, .is-asking") && document.querySelector(".turn-foot, .failed")`

// The side of the pictures has conversations in several states.
for (const name of ["cookie", "reload", "quota"] as const) {
  await tell(name, prompts[name])
  await until(person, OVER)
  await rename(name)
}
await person.goto(at("default"))
await person.locator("input[type=file]").setInputFiles([
  { name: "ci-run-482.png", mimeType: "image/png", buffer: await pixels() },
  {
    name: "gateway.log",
    mimeType: "text/plain",
    buffer: Buffer.from("GET /editor/ 403\n".repeat(40)),
  },
])
await sendPrompt(person, prompts.renewal)
await allowUntil(OVER)
await rename("default")

await shoot("empty", shows(at("new"), ".greeting"), ["desktop", "tablet", "phone"])
await shoot(
  "done",
  (page, device) =>
    shows(
      at("default", isDesktop(device) ? "changes" : undefined),
      isDesktop(device) ? ".file .diff-table" : ".turn-foot",
    )(page),
  ["desktop", "tablet", "phone"],
)
await shoot("tools", async (page) => {
  await shows(at("default"), ".turn-foot")(page)
  await page.evaluate(`document.querySelector("#log").scrollTop = 0`)
})
await shoot("changes", shows(at("default", "changes"), ".file .diff-table"), ["phone"])
await shoot(
  "terminal",
  async (page) => {
    await shows(at("default", "terminal"), "iframe.frame")(page)
    const terminal = page.frameLocator("iframe.frame")
    await terminal.locator(".xterm-screen").waitFor()
    await page.waitForTimeout(700)
    await terminal.locator("textarea").focus()
    await page.keyboard.type("clear; git status --short\n")
  },
  ["phone"],
)

await shoot(
  "picker",
  async (page) => {
    await shows(at("default"), ".turn-foot")(page)
    await page.locator(".picker-button").click()
    await page.locator(".picker-row").first().waitFor()
  },
  ["desktop"],
)
await shoot("settings", async (page) => {
  await shows(at("default"), "#prompt")(page)
  await page.keyboard.press("Control+,")
  await page.locator("dialog.settings").waitFor()
})
await shoot(
  "search",
  async (page) => {
    await shows(at("default", "changes"), "#prompt")(page)
    await page.keyboard.press("Control+k")
    await page.locator("dialog.palette input").fill("renew")
    await page.locator(".palette-row mark").first().waitFor()
  },
  ["desktop"],
)
await shoot(
  "sessions",
  async (page) => {
    await shows(at("default"), "#prompt")(page)
    await page.getByRole("button", { name: "Show the conversations" }).click()
    await page.locator(".row").first().waitFor()
  },
  ["phone"],
)

await tell("default", prompts.tickets)
await allowUntil(`document.querySelector("#log").textContent.includes("rerun 7 of 20")`)
await shoot(
  "live",
  async (page, device) => {
    await shows(at("default", isDesktop(device) ? "preview" : undefined), ".status")(page)
    if (isDesktop(device))
      await page.frameLocator("iframe.frame").getByText("Make a link").waitFor()
  },
  ["desktop", "tablet", "phone"],
)
for (const queued of prompts.queued) await sendPrompt(person, queued)
await person.locator(".queue-row").nth(1).waitFor()
await shoot(
  "queue",
  async (page) => {
    await shows(at("default"), ".queue-row")(page)
    await page.locator("input[type=file]").setInputFiles([
      { name: "screen.png", mimeType: "image/png", buffer: await pixels() },
      { name: "gateway.log", mimeType: "text/plain", buffer: Buffer.alloc(84_000, "x") },
      { name: "note.pdf", mimeType: "application/pdf", buffer: Buffer.alloc(412_000, "x") },
    ])
    await page.locator("#prompt").fill(prompts.typed)
  },
  ["desktop"],
)
await Bun.write(join(home, "released"), "")
await allowUntil(`${OVER} && !document.querySelector(".queue-row")`)

const isCut = { now: false }
await shoot(
  "offline",
  async (page) => {
    isCut.now = false
    // The draft of the picture before.
    await shows(at("default"), "#prompt")(page)
    await page.locator("#prompt").fill("")
    const remove = page.locator(".attachment-remove")
    for (let left = await remove.count(); left > 0; left--) await remove.first().click()
    const sockets = new Set<Parameters<Parameters<Page["routeWebSocket"]>[1]>[0]>()
    await page.routeWebSocket(/\/hub\/sessions\//, (socket) => {
      if (isCut.now) return void socket.close({ code: 1011, reason: "cut for the picture" })
      sockets.add(socket)
      socket.connectToServer()
    })
    await shows(at("default", "editor"), ".turn-foot")(page)
    isCut.now = true
    for (const socket of sockets) await socket.close({ code: 1011, reason: "cut for the picture" })
    await page.locator(".banner").waitFor()
  },
  ["desktop"],
)
isCut.now = false
await tell("callers", prompts.callers)
await person.locator("[data-option='1']").waitFor()
await rename("callers")
await shoot("question", shows(at("callers"), "[data-option='1']"), ["desktop", "tablet", "phone"])
await person.locator("[data-option='1']").click()
await until(person, OVER)
await tell("cache", prompts.cache)
await person.getByRole("button", { name: "Allow once" }).waitFor()
await rename("cache")

await shoot("permission", async (page, device) => {
  await shows(at("cache", isDesktop(device) ? "changes" : undefined), ".decide")(page)
  if (isDesktop(device)) await page.locator(".file .diff-table").first().waitFor()
})
await shoot("error", shows(at("quota", "desktop"), ".failed"), ["desktop"])
await shoot(
  "login",
  async (page) => {
    await page.evaluate("localStorage.clear()")
    await shows(at("default"), "main.login")(page)
  },
  ["desktop", "phone"],
)

await stage.stop()
await model.stop()
await preview.stop(true)
await rm(home, { recursive: true, force: true })

/** A small picture: two colours and a diagonal line. */
async function pixels(): Promise<Buffer> {
  const page = screens[0]?.page
  if (!page) throw new Error("no screen was opened")
  const url = await page.evaluate<string>(`(() => {
    const canvas = document.createElement("canvas")
    Object.assign(canvas, { width: 320, height: 240 })
    const paint = canvas.getContext("2d")
    paint.fillStyle = "#27445c"
    paint.fillRect(0, 0, 320, 240)
    paint.fillStyle = "#2f6f7e"
    paint.beginPath()
    for (const [x, y] of [[120, 0], [320, 0], [320, 60], [110, 240], [0, 240], [0, 120]]) paint.lineTo(x, y)
    paint.fill()
    paint.strokeStyle = "#e9eff0"
    paint.lineWidth = 10
    paint.beginPath()
    paint.moveTo(320, 50)
    paint.lineTo(110, 240)
    paint.stroke()
    return canvas.toDataURL("image/png")
  })()`)
  return Buffer.from(url.slice(url.indexOf(",") + 1), "base64")
}
