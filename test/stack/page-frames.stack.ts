/** The editor and the screen as people see them: in frames of the page of `up`, each in an origin that is not the page's. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Frame, Page } from "playwright-core"
import { type Aim, ATTACK } from "../e2e/page/hostile-page.ts"
import { makeRepository } from "../kit/conversation.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { type PageStage, sendPrompt, startPage, turnIsOver } from "../kit/page.ts"
import { freePort } from "../kit/free-port.ts"
import { temporaryDirectory, until } from "./kit.ts"
import { codeServer, node24 } from "./places.ts"

const display = `:${100 + (process.pid % 800)}`
let model: ScriptedModel
let stage: PageStage
let page: Page
let programs: Awaited<ReturnType<typeof temporaryDirectory>>

beforeAll(async () => {
  const ports = { VSCODE_PORT: freePort(), VNC_PORT: freePort(), VNC_RAW_PORT: freePort() }
  programs = await temporaryDirectory()
  const start = `exec "${join(node24.home, "bin/node")}" "${codeServer.program}" "$@"`
  await writeFile(join(programs.path, "code-server"), `#!/bin/sh\n${start}\n`, { mode: 0o755 })
  model = await startScriptedModel()
  model.on("held", [
    tool("bash", { command: "echo approved > approved.txt", description: "Write" }),
    text("The command has run."),
  ])
  stage = await startPage(
    {
      SANDPIPER_SERVICES: "vscode,vnc",
      SANDPIPER_PERMISSIONS: "relay",
      DISPLAY: display,
      PATH: `${programs.path}:${process.env["PATH"]}`,
      ...Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)])),
    },
    { model, furnish: makeRepository },
  )
  page = (await stage.open()).page
  // The permission that a hostile frame would like to give itself.
  await page.goto(`${stage.origin}/c/local/web:held`)
  await sendPrompt(page, "@@held@@")
  await page.getByRole("button", { name: "Allow once" }).waitFor()
}, 180_000)
afterAll(async () => {
  await stage?.stop()
  await model?.stop()
  await programs?.remove()
})

/** The frame of a panel, once it is at the box. */
const frameOf = async (panel: string): Promise<Frame> => {
  await page.goto(`${stage.origin}/c/local/web:held?panel=${panel}`)
  const find = () => page.frames().find((frame) => frame.url().startsWith("http://box-"))
  await until(() => find() !== undefined, `the frame of ${panel}`, 90)
  return find() ?? page.mainFrame()
}

/** A script of the frame tries all it can, knowing every id. Nothing of the page opens. */
const expectWalls = async (frame: Frame): Promise<void> => {
  const snapshot = await page.evaluate<{ interactions: { id: string; kind: string }[] }>(
    `fetch("/hub/sessions/local", { headers: { "x-sandpiper-key": localStorage.getItem("key") } })
      .then((response) => response.json())`,
  )
  const permission = snapshot.interactions.find(({ kind }) => kind === "permission")?.id ?? ""
  expect(permission).not.toBe("")
  const aim: Aim = {
    page: stage.origin,
    box: new URL(frame.url()).origin,
    permission,
    terminal: "none",
    collector: stage.origin,
  }
  const address = page.url()
  expect(await frame.evaluate(`(${ATTACK})(${JSON.stringify(aim)})`)).toMatchObject({
    storage: "refused",
    storageOfFrame: "refused",
    storageOfWindow: "refused",
    documentOfPage: "refused",
    approve: "refused",
    approveBySocket: "refused",
    readHub: "refused",
    moveThePage: "refused",
  })
  expect(page.url()).toBe(address)
  await page.getByRole("button", { name: "Allow once" }).waitFor()
  expect(await Bun.file(join(stage.sandbox.workDir, "approved.txt")).exists()).toBeFalse()
}

test("a file edited in the frame of the editor is changed on the disk, and the frame reaches nothing of the page", async () => {
  const frame = await frameOf("editor")
  const row = frame.locator('.explorer-viewlet [aria-label^="README.md"]')
  await row.waitFor({ timeout: 90_000 })
  expect(frame.url()).not.toContain("ticket")
  await row.dblclick()
  const lines = frame.locator(".monaco-editor .view-lines", { hasText: "hello" })
  await lines.waitFor({ timeout: 60_000 })
  await lines.click()
  await page.keyboard.press("Control+End")
  await page.keyboard.type("written in the frame")
  await page.keyboard.press("Control+S")
  const file = join(stage.sandbox.workDir, "README.md")
  await until(
    async () => (await Bun.file(file).text()).includes("written in the frame"),
    "the file is saved",
  )
  expect(await Bun.file(file).text()).toStartWith("hello")
  await expectWalls(frame)
}, 300_000)

test("the frame of the screen shows the pixels of the display and their changes, and reaches nothing of the page", async () => {
  const paint = (colour: string) =>
    Bun.spawnSync(["xsetroot", "-display", display, "-solid", colour]).exitCode === 0
  await until(() => paint("red"), "the X display")
  const frame = await frameOf("desktop")
  const shows = (red: number, green: number, blue: number) => () =>
    frame.evaluate<boolean>(`(() => {
      const canvas = document.querySelector("canvas")
      if (!canvas || canvas.width < 100) return false
      const { data } = canvas.getContext("2d").getImageData(50, 50, 1, 1)
      return [${red}, ${green}, ${blue}].every((value, at) => Math.abs(data[at] - value) < 30)
    })()`)
  await until(shows(255, 0, 0), "a red screen", 90)
  expect(paint("blue")).toBeTrue()
  await until(shows(0, 0, 255), "a blue screen", 90)
  await expectWalls(frame)
}, 300_000)

test("a page of the same site, as a tunnel has, shows neither the editor nor the screen in a frame of its own", async () => {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () =>
      new Response("<!doctype html><body>evil", { headers: { "content-type": "text/html" } }),
  })
  const addresses: string[] = []
  for (const panel of ["editor", "desktop"]) addresses.push((await frameOf(panel)).url())
  expect(addresses.map((url) => new URL(url).pathname)).toEqual(["/vscode/", "/vnc/vnc.html"])
  const tab = await page.context().newPage()
  await tab.goto(`http://evil--${new URL(addresses[0] ?? "").hostname}:${server.port}/`)
  for (const url of addresses) {
    // The person's cookie opens it in a tab.
    const own = await page.context().newPage()
    expect((await own.goto(url))?.status()).toBe(200)
    await own.close()
    await tab.evaluate(`document.body.append(Object.assign(document.createElement("iframe"),
      { src: ${JSON.stringify(url)} }))`)
    const last = () => tab.frames().at(-1)?.url() ?? ""
    await until(() => last() !== "" && last() !== "about:blank", "the frame has loaded")
    expect(last()).toStartWith("chrome-error:")
  }
  await tab.close()
  await server.stop(true)
}, 300_000)

test("the permission that the frames could not give is given by the person", async () => {
  await page.goto(`${stage.origin}/c/local/web:held`)
  await page.getByRole("button", { name: "Allow once" }).click()
  await turnIsOver(page, "@@held@@")
  expect(await Bun.file(join(stage.sandbox.workDir, "approved.txt")).text()).toBe("approved\n")
})
