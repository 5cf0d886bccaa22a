/** The page of `sandpiper serve` as a person meets it: the compiled binary, no session yet, the demo model, a browser. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import type { Browser, Frame, Page } from "playwright-core"
import { launchBrowser } from "../kit/browser.ts"
import { freePort } from "../kit/free-port.ts"
import { openPage } from "../kit/page.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { untilTrue } from "../kit/until-true.ts"

let place: Sandbox
let browser: Browser | undefined
let serve: Bun.Subprocess
let page: Page
let problems: readonly string[]

const binary = requireBinary()
const variables = () => {
  const { PATH = "", HOME = "", OPENCODE_BIN = "" } = place.environment
  return { PATH, HOME, OPENCODE_BIN, SANDBOX_ISOLATION: "none", SANDPIPER_SERVICES: "" }
}
const output = (...words: readonly string[]) =>
  Bun.spawnSync([binary, ...words, "--state-dir", place.stateDir], {
    env: variables(),
  }).stdout.toString()
const link = () => /http:\/\/\S+#login=\S+/.exec(output("link"))?.[0] ?? ""
const listed = () =>
  (
    JSON.parse(output("fleet", "ls", "--json")) as {
      readonly sandboxes: readonly { readonly sessionId: string; readonly status: string }[]
    }
  ).sandboxes
const sandboxes = () => listed().map(({ sessionId }) => sessionId)
/** The hub and the fleet over HTTP. */
const call = async (token: string, path: string, body?: object) => {
  const response = await fetch(`http://127.0.0.1:${new URL(link()).port}${path}`, {
    headers: { authorization: `Bearer ${token}` },
    ...(body && { method: "POST", body: JSON.stringify(body) }),
  })
  return (await response.json()) as Record<string, unknown>
}
const operator = () => readFileSync(join(place.stateDir, "fleet", "operator-token"), "utf8").trim()

beforeAll(async () => {
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  serve = Bun.spawn([binary, "serve", "--state-dir", place.stateDir, "--log-level", "error"], {
    env: variables(),
    cwd: place.workDir,
    stdout: "ignore",
    stderr: "inherit",
  })
  await untilTrue(async () => link() !== "", "the page of serve", 50_000)
  browser = await launchBrowser()
})
afterAll(async () => {
  try {
    await browser?.close()
    // Sandboxes go on when `serve` ends.
    for (const session of sandboxes())
      await call(operator(), `/api/sandbox/${session}/terminate`, {})
    const isOver = () => listed().every(({ status }) => status === "terminated")
    await untilTrue(isOver, "end of the sandboxes", 30_000)
  } finally {
    serve.kill("SIGTERM")
    await serve.exited
    await place.remove()
  }
})

const ask = async (content: string) => {
  await page.locator("#prompt").fill(content)
  await page.keyboard.press("Enter")
  await page
    .locator(".log")
    .getByText("I am the scripted demo model")
    .first()
    .waitFor({ timeout: 100_000 })
}
/** As if the hub were busy: the list of sessions comes two seconds late. */
const withSlowList = async (act: () => Promise<void>): Promise<void> => {
  const LIST = "**/hub/sessions?limit=100"
  await page.route(LIST, async (route) => {
    await Bun.sleep(2_000)
    await route.continue()
  })
  await act()
  await page.unrouteAll({ behavior: "wait" })
}
const sessionOf = () => /\/c\/([^/]+)\//.exec(page.url())?.[1] ?? ""

test("the page of a hub without sessions takes a prompt, which is answered in a new sandbox", async () => {
  const opened = await openPage(browser!, link())
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

/** The frame at a sandbox, once there is one for which the rule holds. */
const frameAtBox = async (fits: (url: URL) => boolean = () => true): Promise<Frame> => {
  const isBox = (url: string) => /^http:\/\/(web--)?box-\w+\.sandpiper\.localhost:/.test(url)
  const find = () => page.frames().find((one) => isBox(one.url()) && fits(new URL(one.url())))
  await untilTrue(async () => find() !== undefined, "a frame at the sandbox")
  return find() ?? page.mainFrame()
}
const frameOf = async (panel: string): Promise<Frame> => {
  await page.goto(`${page.url().replace(/\?.*/, "")}?panel=${panel}`)
  return frameAtBox()
}

/** Types a command that makes a file. Keys before the shell is connected are lost, so it is typed again. */
const typeUntil = (terminal: Frame, file: string): Promise<void> =>
  untilTrue(
    async () => {
      await terminal.locator(".xterm-screen").first().click()
      await page.keyboard.type(`touch ${basename(file)}\n`)
      for (let times = 0; times < 30 && !existsSync(file); times += 1) await Bun.sleep(100)
      return existsSync(file)
    },
    `the file ${basename(file)} by a command in the terminal`,
    60_000,
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
  const workspace = join(place.stateDir, "fleet", "local", "files", session, "workspace")
  for (const verb of ["", "pause", "hibernate"]) {
    if (verb !== "") await call(operator(), `/api/sandbox/${session}/${verb}?wait=1`, {})
    const terminal = await frameOf("terminal")
    await typeUntil(terminal, join(workspace, `typed-${verb}.txt`))
    const preview = await frameOf("preview")
    await preview.getByText("Waders").waitFor({ timeout: 30_000 })
    await preview.getByText("and plovers").waitFor({ timeout: 30_000 })
    // A page of the agent has an origin of its own, apart from the terminal's.
    expect(new URL(preview.url()).host).toBe(`web--${new URL(terminal.url()).host}`)
  }
  expect(problems).toEqual([])
  await app.stop(true)
}, 200_000)

test("an open terminal goes on in the next sandbox of its session, and the keys stay where the person types", async () => {
  const session = sessionOf()
  const terminal = await frameOf("terminal")
  await terminal.locator(".xterm-screen").first().click()
  const before = new URL(terminal.url()).port
  await call(operator(), `/api/sandbox/${session}/hibernate?wait=1`, {})
  await ask("run: echo awake")
  const next = await frameAtBox(({ port, hash }) => port !== before && hash.length > 1)
  await Bun.sleep(500)
  expect(await page.evaluate("document.activeElement?.id")).toBe("prompt")
  const workspace = join(place.stateDir, "fleet", "local", "files", session, "workspace")
  await typeUntil(next, join(workspace, "typed-again.txt"))
}, 200_000)

test("the changes of a sandbox that sleeps are shown when the person asks again", async () => {
  const session = sessionOf()
  await ask("run: git init -q . && echo plover > seen.txt")
  const workspace = join(place.stateDir, "fleet", "local", "files", session, "workspace")
  await untilTrue(async () => existsSync(join(workspace, "seen.txt")), "the changed file")
  await call(operator(), `/api/sandbox/${session}/hibernate?wait=1`, {})
  await page.goto(`${page.url().replace(/\?.*/, "")}?panel=changes`)
  await page.getByText("The changes cannot be shown").waitFor()
  await page.getByRole("button", { name: "Try again" }).click()
  const isAwake = () =>
    listed().some(({ sessionId, status }) => sessionId === session && status === "running")
  await untilTrue(async () => isAwake(), "the sandbox that was woken", 60_000)
  // Its agent takes a while to start on a busy machine.
  const changed = page.locator(".panel-body").getByText("seen.txt").first()
  await untilTrue(
    async () => {
      const isShown = await changed.waitFor({ timeout: 8000 }).then(
        () => true,
        () => false,
      )
      if (!isShown) await page.reload()
      return isShown
    },
    "the changed file in the panel",
    100_000,
  )
}, 200_000)

test("a second serve on the same state directory is refused, because two hubs would run a prompt twice", async () => {
  const { err, code } = await runToEnd([binary, "serve", "--state-dir", place.stateDir], {
    env: { ...variables(), HUB_PORT: String(freePort()) },
    cwd: place.workDir,
  })
  expect(err).toContain(`another \`serve\` uses ${place.stateDir}: stop it`)
  expect(code).toBe(2)
})

test("the list of sessions says who may create one", async () => {
  const made = await call(operator(), "/keys?owner=user:anna", {
    name: "reader",
    scopes: ["sessions:read"],
  })
  expect(await call(operator(), "/sessions")).toMatchObject({ mayCreate: true })
  expect(await call(String(made["key"]), "/sessions")).toEqual({ ok: true, sessions: [] })
})
