/**
 * Pages that a hostile agent serves to a person's Chromium. `up` in two directories, one after the other, on the same port: the
 * page of the first one leaves what a page can leave in a browser, and the person then opens the preview of the second one.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
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
let model: ScriptedModel
let browser: Browser
let context: BrowserContext

beforeAll(async () => {
  model = await startScriptedModel()
  browser = await launchBrowser()
  context = await browser.newContext()
})
afterAll(async () => {
  await browser?.close()
  await model?.stop()
  await first.stop(true)
  await second.stop(true)
})

/** The preview of what listens on the port, opened by the person with a link of the page. */
const openPreview = async (stage: PageStage, served: number): Promise<Page> => {
  model.on("preview", [tool("register_tunnel", { name: "preview", port: served }), text("Done.")])
  const page = await context.newPage()
  await page.goto(stage.link())
  await page.locator("#prompt").waitFor()
  await openConversation(page, stage, "preview")
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
  await tab.goto(new URL(link.url, stage.origin).href)
  await page.close()
  return tab
}

const withStage = async <Result>(use: (stage: PageStage) => Promise<Result>): Promise<Result> => {
  const stage = await startPage({}, { model, port, browser })
  try {
    return await use(stage)
  } finally {
    await stage.stop()
  }
}

test("what the preview of one directory left in the browser is not there for the preview of another one on the same port", async () => {
  await withStage(async (stage) => {
    const tab = await openPreview(stage, first.port ?? 0)
    await untilTrue(async () => (await tab.title()) !== "first", "the end of the registration")
    // Without this the attack has had nothing to leave.
    expect(await tab.title()).toBe("planted")
    await tab.reload()
    expect(await tab.textContent("body")).toStartWith("intercepted ")
    await tab.close()
  })
  await withStage(async (stage) => {
    const tab = await openPreview(stage, second.port ?? 0)
    expect(await tab.textContent("body")).toBe("the second preview")
    expect(await tab.evaluate<string | null>(`localStorage.getItem("planted")`)).toBeNull()
  })
}, 180_000)
