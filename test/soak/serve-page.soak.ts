/** The page of `sandpiper serve` as a person meets it: the compiled binary, no session yet, the demo model, a browser. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { basename, join } from "node:path"
import type { Browser, Frame, Page } from "playwright-core"
import { launchBrowser } from "../kit/browser.ts"
import { freePort } from "../kit/free-port.ts"
import { openPage } from "../kit/page.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import {
  askDemo,
  frameAtBox,
  frameOf,
  openPanel,
  type ServeProcess,
  sessionAt,
  startServeProcess,
} from "../kit/serve-process.ts"
import { untilTrue, WAIT_MS } from "../kit/until-true.ts"

let place: Sandbox
let browser: Browser | undefined
let serve: ServeProcess
let page: Page
let problems: readonly string[]

const variables = { SANDBOX_ISOLATION: "none", SANDPIPER_SERVICES: "" }
const sandboxes = () => serve.listed().map(({ sessionId }) => sessionId)

beforeAll(async () => {
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  serve = await startServeProcess(place, variables)
  browser = await launchBrowser()
})
afterAll(async () => {
  try {
    await browser?.close()
    await serve.stop()
  } finally {
    await place.remove()
  }
})

const ask = (content: string) => askDemo(page, content)
const sessionOf = () => sessionAt(page)
const workspaceOf = (session: string) =>
  join(place.stateDir, "fleet", "local", "files", session, "workspace")
/** As if the hub were busy: the list of sessions comes two seconds late. */
const withSlowList = async (act: () => Promise<void>): Promise<void> => {
  const LIST = "**/hub/sessions?limit=100"
  await page.route(LIST, async (route) => {
    // Sleep: the list is late on purpose.
    await Bun.sleep(2_000)
    await route.continue()
  })
  await act()
  await page.unrouteAll({ behavior: "wait" })
}

test("the page of a hub without sessions takes a prompt, which is answered in a new sandbox", async () => {
  const opened = await openPage(browser!, serve.link())
  page = opened.page
  problems = opened.problems
  await ask("write: first.txt")
  expect(sandboxes()).toEqual([sessionOf()])
})

test("a new conversation has a sandbox of its own, and one in the same sandbox sees its files", async () => {
  const first = sessionOf()
  await page.locator(".side-new").click()
  await untilTrue(async () => sessionOf() !== first, "a new session")
  const second = sessionOf()
  // A session without a word is not made twice, also if its first prompt is sent before the list of sessions has come.
  await withSlowList(async () => {
    await page.locator(".side-new").click()
    await ask("run: ls")
  })
  expect(sessionOf()).toBe(second)
  expect(await page.locator(".log").innerText()).not.toContain("first.txt")
  expect(new Set(sandboxes())).toEqual(new Set([first, second]))

  await page.locator(`a[href^="/c/${first}/"]`).first().hover()
  await page
    .locator("li", { has: page.locator(`a[href^="/c/${first}/"]`) })
    .getByRole("button")
    .first()
    .click()
  await page.getByRole("menuitem", { name: "New conversation in this sandbox" }).click()
  expect(sessionOf()).toBe(first)
  await ask("run: ls")
  expect(await page.locator(".log").innerText()).toContain("first.txt")
  expect(problems).toEqual([])
})

/** Types a command that makes a file. Keys before the shell is connected are lost, so it is typed again. */
const typeUntil = (terminal: Frame, file: string): Promise<void> =>
  untilTrue(
    async () => {
      await terminal.locator(".xterm-screen").first().click()
      await page.keyboard.type(`touch ${basename(file)}\n`)
      await untilTrue(() => existsSync(file), "the file", 3000).catch(() => {})
      return existsSync(file)
    },
    `the file ${basename(file)} by a command in the terminal`,
  )

test("the page shows the terminal and the preview of a sandbox, also of one that sleeps", async () => {
  const session = sessionOf()
  const app = Bun.serve({
    hostname: "127.0.0.1",
    port: freePort(),
    fetch: ({ url }) =>
      new URL(url).pathname === "/"
        ? new Response('<h1>Waders</h1><script type="module" src="/more.js"></script>', {
            headers: { "content-type": "text/html" },
          })
        : new Response('document.body.append("and plovers")', {
            headers: { "content-type": "text/javascript" },
          }),
  })
  const body = JSON.stringify({ name: "web", port: app.port })
  await ask(
    `run: curl -sS -H "authorization: Bearer $SANDPIPER_API_TOKEN" -H "content-type: application/json" -d '${body}' $SANDPIPER_URL/api/tunnels`,
  )
  const workspace = workspaceOf(session)
  for (const verb of ["", "pause", "hibernate"]) {
    if (verb !== "") await serve.call(`/api/sandbox/${session}/${verb}?wait=1`, {})
    const terminal = await frameOf(page, "terminal")
    await typeUntil(terminal, join(workspace, `typed-${verb}.txt`))
    const preview = await frameOf(page, "preview")
    await preview.getByText("Waders").waitFor({ timeout: WAIT_MS })
    await preview.getByText("and plovers").waitFor({ timeout: WAIT_MS })
    // A page of the agent has an origin of its own, apart from the terminal's.
    expect(new URL(preview.url()).host).toBe(`web--${new URL(terminal.url()).host}`)
  }
  expect(problems).toEqual([])
  await app.stop(true)
}, 200_000)

test("an open terminal goes on in the next sandbox of its session, and the keys stay where the person types", async () => {
  const session = sessionOf()
  const terminal = await frameOf(page, "terminal")
  await terminal.locator(".xterm-screen").first().click()
  const before = new URL(terminal.url()).port
  await serve.call(`/api/sandbox/${session}/hibernate?wait=1`, {})
  await ask("run: echo awake")
  const next = await frameAtBox(page, ({ port, hash }) => port !== before && hash.length > 1)
  // The terminal takes the keys when it is connected, if at all: it shows the prompt of the shell after that.
  await next.locator(".xterm-rows", { hasText: /\S/ }).waitFor()
  expect(await page.evaluate("document.activeElement?.id")).toBe("prompt")
  const workspace = workspaceOf(session)
  await typeUntil(next, join(workspace, "typed-again.txt"))
}, 200_000)

test("the changes of a sandbox that sleeps are shown when the person asks again", async () => {
  const session = sessionOf()
  await ask("run: git init -q . && echo plover > seen.txt")
  const workspace = workspaceOf(session)
  await untilTrue(async () => existsSync(join(workspace, "seen.txt")), "the changed file")
  await serve.call(`/api/sandbox/${session}/hibernate?wait=1`, {})
  await openPanel(page, "changes")
  await page.getByText("The changes cannot be shown").waitFor()
  await page.getByRole("button", { name: "Try again" }).click()
  const isAwake = () =>
    serve.listed().some(({ sessionId, status }) => sessionId === session && status === "running")
  await untilTrue(async () => isAwake(), "the sandbox that was woken")
  await page.locator(".panel-body").getByText("seen.txt").first().waitFor({ timeout: 100_000 })
}, 200_000)

test("a second serve on the same state directory is refused, because two hubs would run a prompt twice", async () => {
  const { err, code } = await runToEnd([requireBinary(), "serve", "--state-dir", place.stateDir], {
    env: { ...place.environment, ...variables, HUB_PORT: String(freePort()) },
    cwd: place.workDir,
  })
  expect(err).toContain(`another \`serve\` uses ${place.stateDir}: stop it`)
  expect(code).toBe(2)
})

test("the list of sessions says who may create one", async () => {
  const made = await serve.call("/keys?owner=user:anna", {
    name: "reader",
    scopes: ["sessions:read"],
  })
  expect(await serve.call("/sessions")).toMatchObject({ mayCreate: true })
  expect(await serve.call("/sessions", undefined, String(made["key"]))).toEqual({
    ok: true,
    sessions: [],
  })
})
