/** The editor and the screen of `serve` as people see them: in frames of its page, from sandboxes on the same machine. */
import { afterEach, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Frame, Page } from "playwright-core"
import { launchBrowser } from "../kit/browser.ts"
import { openPage } from "../kit/page.ts"
import { createSandbox, requireBinary } from "../kit/runner.ts"
import { untilTrue } from "../kit/until-true.ts"
import { codeServer, node24 } from "./places.ts"

const binary = requireBinary()
const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

/** A `serve` whose session has answered a prompt, with the page at that session. */
const startServed = async (isolation: "none" | "required", services: string) => {
  const place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  ends.push(place.remove)
  const programs = join(place.root, "bin")
  const start = `exec "${join(node24.home, "bin/node")}" "${codeServer.program}" "$@"`
  await mkdir(programs)
  await writeFile(join(programs, "code-server"), `#!/bin/sh\n${start}\n`, { mode: 0o755 })
  const { PATH = "", HOME = "", OPENCODE_BIN = "" } = place.environment
  const env = {
    PATH: `${programs}:${PATH}`,
    HOME,
    OPENCODE_BIN,
    SANDBOX_ISOLATION: isolation,
    SANDPIPER_SERVICES: services,
  }
  const state = ["--state-dir", place.stateDir]
  const link = () => {
    const said = Bun.spawnSync([binary, "link", ...state], { env }).stdout.toString()
    return /http:\/\/\S+#login=\S+/.exec(said)?.[0] ?? ""
  }
  const call = async (path: string, method = "POST") => {
    const token = readFileSync(join(place.stateDir, "fleet", "operator-token"), "utf8").trim()
    const port = readFileSync(join(place.stateDir, "fleet", "hub-port"), "utf8").trim()
    const headers = { authorization: `Bearer ${token}` }
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers })
    return (await response.json()) as Record<string, unknown>
  }
  const serve = Bun.spawn([binary, "serve", ...state, "--log-level", "error"], {
    env,
    cwd: place.workDir,
    stdout: "ignore",
    stderr: "inherit",
  })
  ends.push(async () => {
    serve.kill("SIGTERM")
    await serve.exited
  })
  await untilTrue(async () => link() !== "", "the page of serve", 50_000)
  const browser = await launchBrowser()
  ends.push(() => browser.close())
  const { page } = await openPage(browser, link())
  await page.locator("#prompt").fill("write: first.txt")
  await page.keyboard.press("Enter")
  const answer = page.locator(".log").getByText("I am the scripted demo model").first()
  await answer.waitFor({ timeout: 60_000 })
  const session = /\/c\/([^/]+)\//.exec(page.url())?.[1] ?? ""
  ends.push(() => call(`/api/sandbox/${session}/terminate?wait=1`))
  return { page, sleep: () => call(`/api/sandbox/${session}/pause?wait=1`) }
}

/** The frame of a panel, once it is at the sandbox. */
const frameOf = async (page: Page, panel: string): Promise<Frame> => {
  await page.goto(`${page.url().replace(/\?.*/, "")}?panel=${panel}`)
  const find = () => page.frames().find((frame) => frame.url().includes("//box-"))
  await untilTrue(async () => find() !== undefined, `the frame of ${panel}`, 60_000)
  return find() ?? page.mainFrame()
}

test("the page of serve shows the editor of a sandbox with its files, also after the sandbox has slept", async () => {
  const { page, sleep } = await startServed("none", "vscode")
  for (const time of ["first", "second"]) {
    const editor = await frameOf(page, "editor")
    const file = editor.locator('.explorer-viewlet [aria-label^="first.txt"]')
    await file.waitFor({ timeout: 90_000 })
    if (time === "first") expect(await sleep()).toMatchObject({ status: "paused" })
  }
}, 240_000)

test("the page of serve shows the screen of an isolated sandbox", async () => {
  const { page } = await startServed("required", "vnc")
  const screen = await frameOf(page, "desktop")
  await screen.locator("canvas").first().waitFor({ timeout: 60_000 })
  const isConnected = () => screen.evaluate("document.documentElement.className")
  await untilTrue(async () => String(await isConnected()).includes("noVNC_connected"), "the screen")
}, 240_000)
