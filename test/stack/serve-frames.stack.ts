/** The editor and the screen of `serve` as people see them: in frames of its page, from sandboxes on the same machine. */
import { afterEach, expect, test } from "bun:test"
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { launchBrowser } from "../kit/browser.ts"
import { openPage } from "../kit/page.ts"
import { createSandbox } from "../kit/runner.ts"
import { askDemo, frameOf, sessionAt, startServeProcess } from "../kit/serve-process.ts"
import { untilTrue } from "../kit/until-true.ts"
import { codeServer, node24 } from "./places.ts"

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
  const serve = await startServeProcess(place, {
    PATH: `${programs}:${place.environment["PATH"] ?? ""}`,
    SANDBOX_ISOLATION: isolation,
    SANDPIPER_SERVICES: services,
  })
  ends.push(serve.stop)
  const browser = await launchBrowser()
  ends.push(() => browser.close())
  const { page } = await openPage(browser, serve.link())
  await askDemo(page, "write: first.txt")
  return { page, sleep: () => serve.call(`/api/sandbox/${sessionAt(page)}/pause?wait=1`, {}) }
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
