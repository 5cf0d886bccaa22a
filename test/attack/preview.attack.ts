/**
 * What a hostile agent shows to a person's Chromium: an image of kilobytes that needs gigabytes, and a preview that leaves in the
 * browser what a page can leave there, for the preview of another directory, whose `up` is on the same port afterwards.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { crc32, deflateSync } from "node:zlib"
import type { Browser, BrowserContext, Page } from "playwright-core"
import { launchBrowser } from "../kit/browser.ts"
import { freePort } from "../kit/free-port.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { openConversation, type PageStage, sendPrompt, startPage, turnIsOver } from "../kit/page.ts"
import { untilTrue } from "../kit/until-true.ts"

/** Answers every navigation, and says what its address was: a ticket would be in it. */
const WORKER = `
self.addEventListener("install", () => self.skipWaiting())
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()))
self.addEventListener("fetch", (event) => event.respondWith(
  new Response("intercepted " + event.request.url, { headers: { "content-type": "text/html" } })))`

const PLANT = `<!doctype html><title>first</title><script>
localStorage.setItem("planted", "yes")
navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready)
  .then(() => { document.title = "planted" }, () => { document.title = "refused" })</script>`

/** One pixel. */
const SMALL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
)
const SIDE = 23_000
const chunk = (type: string, data: Uint8Array): Buffer => {
  const body = Buffer.concat([Buffer.from(type), data])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, sum])
}
/** A white PNG with one bit per pixel: 64 kB, and 2 GB in a browser. */
const imageBomb = (): Buffer => {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(SIDE, 0)
  head.writeUInt32BE(SIDE, 4)
  head.writeUInt8(1, 8)
  const rows = deflateSync(Buffer.alloc((Math.ceil(SIDE / 8) + 1) * SIDE), { level: 9 })
  return Buffer.concat([
    Buffer.from("89504e470d0a1a0a", "hex"),
    chunk("IHDR", head),
    chunk("IDAT", rows),
    chunk("IEND", new Uint8Array()),
  ])
}

const serve = (html: string) =>
  Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) =>
      url.endsWith("/worker.js")
        ? new Response(WORKER, { headers: { "content-type": "text/javascript" } })
        : new Response(html, { headers: { "content-type": "text/html" } }),
  })

const first = serve(PLANT)
const second = serve("<!doctype html><title>second</title>the second preview")
const port = freePort()
const start = (): Promise<PageStage> => startPage({}, { model, port, browser })
let model: ScriptedModel
let browser: Browser
let context: BrowserContext
let stage: PageStage

beforeAll(async () => {
  model = await startScriptedModel()
  browser = await launchBrowser()
  context = await browser.newContext()
  stage = await start()
})
afterAll(async () => {
  await stage?.stop()
  await browser?.close()
  await model?.stop()
  await first.stop(true)
  await second.stop(true)
})

/** The preview of what listens on the port, opened by the person with a link of the page. */
const openPreview = async (at: PageStage, served: number): Promise<Page> => {
  model.on("preview", [tool("register_tunnel", { name: "preview", port: served }), text("Done.")])
  const page = await context.newPage()
  await page.goto(at.link())
  await page.locator("#prompt").waitFor()
  await openConversation(page, at, "preview")
  await sendPrompt(page, "@@preview@@")
  await turnIsOver(page, "@@preview@@")
  const link = await page.evaluate<{ url: string }>(
    `fetch("/hub/sessions/local/links", {
      method: "POST",
      headers: { "x-sandpiper-key": localStorage.getItem("key"), "content-type": "application/json" },
      body: '{"to":"tunnel:preview"}',
    }).then((response) => response.json())`,
  )
  const tab = await context.newPage()
  await tab.goto(new URL(link.url, at.origin).href)
  await page.close()
  return tab
}

test("an image of kilobytes that needs gigabytes is a file to save and is not drawn", async () => {
  await writeFile(join(stage.sandbox.workDir, "bomb.png"), imageBomb())
  await writeFile(join(stage.sandbox.workDir, "small.png"), SMALL)
  const command = "mkdir -p output/display && mv *.png output/display/"
  model.on("bomb", [tool("bash", { command, description: "Show" }), text("Look.")])
  const page = await context.newPage()
  await page.goto(stage.link())
  await page.locator("#prompt").waitFor()
  await openConversation(page, stage, "bomb")
  await sendPrompt(page, "@@bomb@@")
  await turnIsOver(page, "@@bomb@@")
  await page.getByRole("button", { name: "Save bomb.png" }).waitFor()
  const drawn = page.locator("img[src^='blob:']")
  await drawn.waitFor()
  expect(await drawn.count()).toBe(1)
  expect(await drawn.getAttribute("alt")).toContain("small.png")
  await page.close()
}, 120_000)

test("what the preview of one directory left in the browser is not there for the preview of another one on the same port", async () => {
  const left = await openPreview(stage, first.port ?? 0)
  await untilTrue(async () => (await left.title()) !== "first", "the end of the registration")
  // Without this the attack has had nothing to leave.
  expect(await left.title()).toBe("planted")
  await left.reload()
  expect(await left.textContent("body")).toStartWith("intercepted ")
  await left.close()
  await stage.stop()
  stage = await start()
  const tab = await openPreview(stage, second.port ?? 0)
  expect(await tab.textContent("body")).toBe("the second preview")
  expect(await tab.evaluate<string | null>(`localStorage.getItem("planted")`)).toBeNull()
}, 180_000)
