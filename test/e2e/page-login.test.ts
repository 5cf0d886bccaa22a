/** People with a key or a share link of their own on the page of `serve`: a real browser, the hub on Bun, a runner without an agent. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Browser, Page } from "playwright-core"
import { servePage } from "../../src/cli/serve-page.ts"
import { loadPageFiles } from "../../src/hub/page-files.ts"
import { type FakeRunner, startFakeRunner } from "../hub/kit/fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN, startTestHub, type TestHub } from "../hub/kit/hub.ts"
import { launchBrowser } from "../kit/browser.ts"

let folder: string
let house: TestHub
let runner: FakeRunner
let browser: Browser
let origin: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "page-login-"))
  const settings = {
    stateDir: folder,
    pageOrigin: "http://sandpiper.localhost",
    sandboxOrigin: undefined,
  }
  const page = servePage(settings, await loadPageFiles(), CLIENT_TOKEN)
  house = await startTestHub({ stateDir: folder, page })
  origin = `http://sandpiper.localhost:${house.hub.port}`
  runner = startFakeRunner({
    url: `${house.hub.url.replace(/^http/, "ws")}/sessions/s1/ws`,
    token: RUNNER_TOKEN,
    stateDir: join(folder, "runner"),
    answer: ({ content }) => [`Answer to ${content}.`],
    eager: true,
  })
  browser = await launchBrowser()
})
afterAll(async () => {
  await browser.close()
  await runner.stop()
  await house.stop()
  await rm(folder, { recursive: true, force: true })
})

const call = async (method: string, path: string, body: object) => {
  const response = await fetch(`${house.hub.url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${CLIENT_TOKEN}` },
    body: JSON.stringify(body),
  })
  return (await response.json()) as Record<string, unknown>
}
const shareLink = async (role: string): Promise<string> => {
  const { token } = await call("POST", "/sessions/s1/share-links", { role })
  return `${origin}/#share=s1/${String(token)}`
}
const newPage = async (): Promise<Page> => {
  const page = await (await browser.newContext()).newPage()
  page.setDefaultTimeout(60_000)
  return page
}

test("a viewer's share link shows the conversation without a composer, and an editor's has one; the token is not in the address", async () => {
  const editor = await newPage()
  await editor.goto(await shareLink("editor"))
  await editor.locator("#prompt").fill("a shared prompt")
  await editor.locator("#prompt").press("Enter")
  await editor.getByText("Answer to a shared prompt.").first().waitFor()
  expect(editor.url()).toBe(`${origin}/c/s1/web:default`)
  const viewer = await newPage()
  await viewer.goto(await shareLink("viewer"))
  await viewer.locator(".reply", { hasText: "Answer to a shared prompt." }).waitFor()
  await viewer.getByText("You can read this session.").waitFor()
  expect(await viewer.locator("#prompt").count()).toBe(0)
  expect(await viewer.getByRole("button", { name: "Undo from here" }).count()).toBe(0)
  await viewer.reload()
  await viewer.getByText("You can read this session.").waitFor()
  expect(viewer.url()).not.toContain("sps_")
  // Another site can open a link in this browser: the login changes only if the person says so.
  await viewer.goto("about:blank")
  await viewer.goto(await shareLink("editor"))
  await viewer.getByRole("button", { name: "Stay" }).click()
  await viewer.getByText("You can read this session.").waitFor()
  await Promise.all([editor.context().close(), viewer.context().close()])
})

test("a pasted API key shows its owner's sessions, a wrong one is refused, and a revoked one leads back to the login screen", async () => {
  await call("PUT", "/sessions/hers", { owner: "user:ann", title: "Session of Ann" })
  const made = await call("POST", "/keys?owner=user:ann", { scopes: ["sessions:write"] })
  const page = await newPage()
  await page.goto(origin)
  const field = page.getByLabel("Or paste an API key, a token or a share link")
  await field.fill("wrong")
  await page.getByRole("button", { name: "Log in" }).click()
  await page.getByRole("alert").waitFor()
  await field.fill(String(made["key"]))
  await page.getByRole("button", { name: "Log in" }).click()
  await page.waitForURL(`${origin}/c/hers/web:default`)
  await page.locator("#prompt").waitFor()
  expect(await page.locator(".side-list").innerText()).not.toContain("a shared prompt")
  // Sessions of elsewhere come and change without a reload, and those of others do not come.
  const row = (title: string) => page.locator(".row-title", { hasText: title })
  await call("PUT", "/sessions/others", { owner: "user:ben", title: "Session of Ben" })
  await call("PUT", "/sessions/more", { owner: "user:ann", title: "Made elsewhere" })
  await row("Made elsewhere").waitFor()
  await call("POST", "/sessions/more/rename", { title: "Renamed elsewhere" })
  await row("Renamed elsewhere").waitFor()
  expect(await row("Made elsewhere").count()).toBe(0)
  expect(await row("Session of Ben").count()).toBe(0)
  const { prefix } = made["row"] as { prefix: string }
  await call("DELETE", `/keys/${prefix}?owner=user:ann`, {})
  await page.getByText("This browser is not logged in").waitFor()
  await page.context().close()
})
