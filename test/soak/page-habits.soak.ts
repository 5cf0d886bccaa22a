/**
 * What a person relies on in the page: what is read stays where it is at every frame, what was opened stays open, Back
 * closes the drawer, the terminal keeps its shell, and everything said can be found.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Page } from "playwright-core"
import { eventually, gate } from "../e2e/page/ground.ts"
import { makeRepository } from "../kit/conversation.ts"
import { reply, type ScriptedModel, startScriptedModel, text, tool, waitFor } from "../kit/model.ts"
import { type PageStage, sendPrompt, startPage, turnIsOver, until } from "../kit/page.ts"

let model: ScriptedModel
let stage: PageStage
let page: Page
let problems: readonly string[]

const PARAGRAPH = "Words that fill a line of the conversation, with `code` and **weight**. ".repeat(
  6,
)
const LONG = `${PARAGRAPH}\n\n`.repeat(25)

const at = (name: string, panel?: string) =>
  `${stage.origin}/c/local/web:${name}${panel === undefined ? "" : `?panel=${panel}`}`
const show = async (name: string, selector = "#prompt", on = page) => {
  await on.goto(at(name))
  await on.locator(selector).first().waitFor()
}
const ask = async (name: string, on = page) => {
  await sendPrompt(on, `@@${name}@@`)
  await turnIsOver(on, `@@${name}@@`)
}

beforeAll(async () => {
  model = await startScriptedModel()
  stage = await startPage({ SANDPIPER_PERMISSIONS: "relay" }, { model, furnish: makeRepository })
  ;({ page, problems } = await stage.open())
  model.on("look", [
    reply(tool("read", { filePath: "README.md" }), tool("read", { filePath: "README.md" })),
    text("Read twice."),
  ])
  for (const name of ["first", "second", "third"]) model.on(name, [text(`${name}: ${LONG}`)])
  await show("reader")
  for (const name of ["look", "first", "second", "third"]) await ask(name)
}, 120_000)
afterAll(async () => {
  await stage?.stop()
  await model?.stop()
})

/** Marks the first block that is wholly in view, and records at every frame how far it has moved since. */
const watchReading = (on: Page) =>
  on.evaluate(`(() => {
    const log = document.querySelector("#log")
    const top = log.getBoundingClientRect().top
    const read = [...log.querySelectorAll("[data-anchor]")].find(
      (one) => one.getBoundingClientRect().top >= top,
    )
    const from = read.getBoundingClientRect().top
    window.moved = []
    window.frames = 0
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      window.frames += 1
      const now = read.isConnected ? read.getBoundingClientRect().top - from : NaN
      if (!(Math.abs(now) <= 1)) window.moved.push(now)
    }
    // After the frame is drawn, when its corrections are done.
    const look = () => {
      port2.postMessage(0)
      window.watching = requestAnimationFrame(look)
    }
    look()
  })()`)
const readingMoved = async (on: Page): Promise<readonly number[]> => {
  await until(on, "window.frames > 10")
  return on.evaluate("(cancelAnimationFrame(window.watching), window.moved)")
}
const slowDown = async (on: Page, rate: number) => {
  const debug = await on.context().newCDPSession(on)
  await debug.send("Emulation.setCPUThrottlingRate", { rate })
}

test("a reader away from the end stays at the same words at every frame, while an answer streams, an image arrives and the window changes, with a quarter of the processor", async () => {
  await show("reader", ".turn-foot")
  await page.evaluate(`document.querySelector("#log").scrollTop -= 2500`)
  await page.locator(".newest").waitFor()
  await slowDown(page, 4)
  const middle = gate()
  model.on("streamed", [
    reply(
      text(LONG.slice(0, 4000), { chunks: 60, delayMs: 10 }),
      waitFor(middle.opened),
      text(LONG.slice(0, 4000), { chunks: 60, delayMs: 10 }),
      text("\n\nThe end of it."),
    ),
  ])
  const other = await stage.open()
  await show("reader", ".turn-foot", other.page)
  await watchReading(page)
  await other.page.locator("input[type=file]").setInputFiles({
    name: "dot.png",
    mimeType: "image/png",
    buffer: Buffer.from(
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
      "base64",
    ),
  })
  await sendPrompt(other.page, "@@streamed@@")
  await other.page.locator(".prose", { hasText: "Words that fill" }).last().waitFor()
  await page.locator(".newest.has-new").waitFor()
  // Lower and higher again, as with a keyboard on a screen or another window beside it.
  await page.setViewportSize({ width: 1440, height: 700 })
  await page.setViewportSize({ width: 1440, height: 900 })
  middle.open()
  await turnIsOver(other.page, "@@streamed@@")
  expect(await readingMoved(page)).toEqual([])
  await slowDown(page, 1)
  await other.context.close()
})

test("a page that follows an answer is at its end at every frame", async () => {
  model.on("followed", [text(LONG.slice(0, 6000), { chunks: 80, delayMs: 10 })])
  await show("follower")
  await page.evaluate(`(() => {
    const log = document.querySelector("#log")
    window.away = []
    window.frames = 0
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      window.frames += 1
      const left = log.scrollHeight - log.scrollTop - log.clientHeight
      if (left > 1) window.away.push(left)
    }
    const look = () => {
      port2.postMessage(0)
      window.watching = requestAnimationFrame(look)
    }
    look()
  })()`)
  await ask("followed")
  await until(page, "window.frames > 10")
  expect(await page.evaluate("(cancelAnimationFrame(window.watching), window.away)")).toEqual([])
  // Longer than the view: it was followed, not only shown.
  expect(await page.evaluate(`document.querySelector("#log").scrollTop > 0`)).toBe(true)
})

test("a row that a person opened is open when its turn comes back into the document, and after a reload", async () => {
  await show("reader", ".turn-foot")
  const row = page.getByRole("button", { name: "Read 2 files" })
  const toStart = async () => {
    await page.evaluate(`document.querySelector("#log").scrollTop = 0`)
    await row.waitFor()
  }
  await toStart()
  await row.click()
  await page.locator("[data-fold][aria-expanded=true]", { hasText: "Read 2 files" }).waitFor()
  await page.locator("#log").press("End")
  await row.waitFor({ state: "detached" })
  await toStart()
  expect(await row.getAttribute("aria-expanded")).toBe("true")
  await page.locator("#log").press("End")
  await row.waitFor({ state: "detached" })
  await page.reload()
  await page.locator(".turn-foot").first().waitFor()
  await toStart()
  expect(await row.getAttribute("aria-expanded")).toBe("true")
})

test("messages of all conversations are found in the side, and Enter takes the text to the search layer", async () => {
  await show("elsewhere")
  const field = page.locator(".side-find input")
  await field.fill("Read twice")
  await page.locator(".row.is-found mark", { hasText: "Read twice" }).waitFor()
  await field.press("Enter")
  const layer = page.locator("dialog.palette")
  expect(await layer.getByRole("combobox").inputValue()).toBe("Read twice")
  await layer.locator(".palette-row", { hasText: "Read twice" }).first().waitFor()
  await page.keyboard.press("Escape")
  await field.fill("nothing says this")
  await page.locator(".side-note", { hasText: "Nothing says" }).waitFor()
  await field.fill("Read twice")
  await page.locator(".row.is-found").click()
  await page.locator(".prose", { hasText: "Read twice." }).waitFor()
  expect(page.url()).toContain("/web:reader#m=")
  await field.fill("")
})

test("a permission says which conversation asks for it and which command waits", async () => {
  model.on("outside", [
    tool("bash", { command: "ls /var/cache/*", description: "List the cache" }),
    text("Listed."),
  ])
  await show("outside")
  await sendPrompt(page, "@@outside@@")
  await page.locator(".pattern", { hasText: "ls /var/cache/*" }).waitFor()
  expect(await page.locator(".card-where").count()).toBe(0)
  await show("reader", ".decide")
  await page.locator(".card-where a").click()
  await page.waitForURL(at("outside"))
  await page.getByRole("button", { name: "Deny" }).click()
  await turnIsOver(page, "@@outside@@")
})

test("the terminal keeps its shell over a reload, has a second one, follows the width of the panel, survives a flood, and F6 leaves it", async () => {
  await page.goto(at("reader", "terminal"))
  const frame = page.frameLocator("iframe.frame")
  const screen = frame.locator(".xterm-rows")
  const type = async (line: string) => {
    await frame.locator("textarea").focus()
    await page.keyboard.type(`${line}\n`)
  }
  const shows = (words: string) => screen.filter({ hasText: words }).waitFor()
  await shows("#")
  await type("kept=first; echo $kept-$((40 + 2))")
  await shows("first-42")
  await page.reload()
  await shows("first-42")
  await type("echo again-$kept")
  await shows("again-first")
  await frame.getByRole("button", { name: "New terminal" }).click()
  await frame.getByRole("button", { name: "Terminal 2", exact: true }).waitFor()
  await type("echo second-$kept-$((1 + 1))")
  await shows("second--2")
  await frame.getByRole("button", { name: "Terminal 1", exact: true }).click()
  await shows("again-first")
  // The shell has the size of the panel.
  await type("clear; echo columns-$(tput cols)")
  await shows("columns-")
  const columns = async () => /columns-(\d+)/.exec(await screen.innerText())?.[1]
  const before = await columns()
  await page.getByRole("separator").press("End")
  await eventually("the shell is wider", async () => {
    await type("clear; echo columns-$(tput cols)")
    return Number(await columns()) > Number(before)
  })
  // While a program floods the terminal, the page takes what is typed.
  await type("clear; yes flood | head -c 5000000; echo over-$((1 + 1))")
  await shows("flood")
  await page.locator("#prompt").fill("typed during the flood")
  expect(await page.locator("#prompt").inputValue()).toBe("typed during the flood")
  await page.locator("#prompt").fill("")
  await screen.filter({ hasText: "over-2" }).waitFor({ timeout: 90_000 })
  await frame.locator("textarea").focus()
  await page.keyboard.press("F6")
  await until(page, `document.activeElement.closest("#side")`)
  // From the side, backwards round the page into the panel again.
  await page.keyboard.press("Shift+F6")
  await until(page, `document.activeElement.closest("#panel")`)
}, 120_000)

test("the answer is copied as the Markdown that the agent wrote", async () => {
  const written = "Some **weight** and a list:\n\n- `one`\n- two"
  model.on("copied", [text(written)])
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"])
  await show("copied")
  await ask("copied")
  await page.getByRole("button", { name: "Copy the answer as Markdown" }).click()
  await page.getByRole("button", { name: "Copied" }).waitFor()
  expect(await page.evaluate<string>("navigator.clipboard.readText()")).toBe(written)
})

test("J and K move in the list of conversations, until the person turns single keys off", async () => {
  await show("reader", ".row")
  const rows = page.locator("#side a.row")
  await rows.first().focus()
  const focused = () => page.evaluate<string>("document.activeElement.getAttribute('href')")
  const [first, second] = [
    await rows.nth(0).getAttribute("href"),
    await rows.nth(1).getAttribute("href"),
  ]
  await page.keyboard.press("j")
  expect(await focused()).toBe(second ?? "")
  await page.keyboard.press("k")
  expect(await focused()).toBe(first ?? "")
  await page.keyboard.press("?")
  await page.getByRole("switch", { name: "Single keys" }).uncheck()
  await page.keyboard.press("Escape")
  await page.locator("dialog.settings").waitFor({ state: "detached" })
  await rows.first().focus()
  await page.keyboard.press("j")
  expect(await focused()).toBe(first ?? "")
  await page.evaluate("localStorage.removeItem('single-keys')")
})

test("on a phone Back closes the drawer, and a conversation that is chosen in it takes the drawer's place in the history", async () => {
  const phone = await stage.open({
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    reducedMotion: "reduce",
  })
  await show("reader", ".turn-foot", phone.page)
  const drawer = phone.page.getByRole("navigation", { name: "Conversations" })
  const open = () => phone.page.getByRole("button", { name: "Show the conversations" }).click()
  await open()
  await drawer.waitFor()
  await phone.page.goBack()
  await drawer.waitFor({ state: "detached" })
  expect(phone.page.url()).toBe(at("reader"))
  await open()
  await drawer
    .locator("a.row")
    .filter({ hasNot: phone.page.locator("[aria-current]") })
    .last()
    .click()
  await drawer.waitFor({ state: "detached" })
  await phone.page.goBack()
  await phone.page.waitForURL(at("reader"))
  expect(await drawer.count()).toBe(0)
  // This person has asked for less motion.
  const motion = `["--fast", "--slow", "--spin"].map((name) => parseFloat(getComputedStyle(document.documentElement).getPropertyValue(name)))`
  expect(await phone.page.evaluate<readonly number[]>(motion)).toEqual([0, 0, 4])
  expect([...problems, ...phone.problems]).toEqual([])
  await phone.context.close()
})
