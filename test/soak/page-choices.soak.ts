/**
 * What a person chooses on the page besides prompts: models, another agent in a git worktree, previews, images, and panels
 * whose programs are not installed. The compiled binary, the real OpenCode, a scripted model, Chromium.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { execa } from "execa"
import type { Page } from "playwright-core"
import { eventually } from "../e2e/page/ground.ts"
import { makeRepository } from "../kit/conversation.ts"
import { freePort } from "../kit/free-port.ts"
import { httpError, type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import {
  type OpenedPage,
  openConversation,
  type PageStage,
  sendPrompt,
  startPage,
  turnIsOver,
} from "../kit/page.ts"

let model: ScriptedModel
let stage: PageStage
let opened: OpenedPage
let page: Page

const withoutEditor = (process.env["PATH"] ?? "")
  .split(":")
  .filter((folder) => !existsSync(join(folder, "code-server")))
  .join(":")

beforeAll(async () => {
  model = await startScriptedModel({
    models: { large: "large", medium: "medium", small: "small" },
  })
  stage = await startPage(
    { SANDPIPER_SERVICES: "vscode", PATH: withoutEditor },
    {
      model,
      furnish: async ({ workDir }) => {
        await makeRepository({ workDir })
        await execa("git", ["branch", "-M", "main"], { cwd: workDir })
      },
    },
  )
  opened = await stage.open()
  page = opened.page
})
afterAll(async () => {
  await stage.stop()
  await model.stop()
})

const picker = () => page.locator(".picker-button")
const modelsAsked = () => model.requests.map((request) => request.model)

test("a fallback that is chosen in the picker is used by the next prompt and shown after a reload", async () => {
  await openConversation(page, stage, "fallbacks")
  await picker().click()
  await page.getByRole("option", { name: "large" }).click()
  await picker().click()
  await page.getByLabel("Fallback model 1").selectOption({ label: "small" })
  await page.getByLabel("Fallback model 2").selectOption({ label: "medium" })
  await page.reload()
  await page.locator("#prompt").waitFor()
  await picker().click()
  const shown = async (place: number) =>
    page.getByLabel(`Fallback model ${place}`).locator("option:checked").innerText()
  await page.getByLabel("Fallback model 2").waitFor()
  expect([await shown(1), await shown(2)]).toEqual(["small", "medium"])
  await page.keyboard.press("Escape")
  model.on("failing", [httpError(404, { message: "no such model" }), text("From another model.")])
  await sendPrompt(page, "@@failing@@")
  await page.locator(".log").getByText("From another model.").waitFor()
  await turnIsOver(page, "@@failing@@")
  expect(modelsAsked().slice(-2)).toEqual(["large", "small"])
  await picker().click()
  await page.getByLabel("Fallback model 1").selectOption({ label: "nothing" })
  await page.getByLabel("Fallback model 1").selectOption({ label: "nothing" })
  await page.keyboard.press("Escape")
})

test("the model for new conversations is used by a prompt that names none", async () => {
  await page.getByRole("button", { name: "Settings" }).click()
  const choice = page.getByLabel("Model for new conversations")
  await choice.selectOption({ label: "medium" })
  await page.getByText("Saved").first().waitFor()
  await page.keyboard.press("Escape")
  await openConversation(page, stage, "new-model")
  await eventually(
    "the picker shows the model",
    async () => (await picker().innerText()).trim() === "medium",
  )
  model.on("plain", [text("Answered.")])
  await sendPrompt(page, "@@plain@@")
  await turnIsOver(page, "@@plain@@")
  expect(modelsAsked().at(-1)).toBe("medium")
})

test("another agent works in a git worktree of its own, and its changes are shown against main", async () => {
  const { workDir } = stage.sandbox
  model.on("worktree", [
    tool("bash", {
      command: "echo wet > tide.txt; git branch --show-current",
      description: "Write",
    }),
    text("Written in the worktree."),
  ])
  await page.getByRole("button", { name: "More ways to start" }).click()
  await page.getByRole("menuitem", { name: /git worktree/ }).click()
  await page.waitForURL((url) => !url.pathname.startsWith("/c/local/"))
  await page.getByText("What should be done?").waitFor()
  await sendPrompt(page, "@@worktree@@")
  // A second runner and its OpenCode start for it.
  await page.locator(".log").getByText("Written in the worktree.").waitFor({ timeout: 120_000 })
  expect(existsSync(join(workDir, "tide.txt"))).toBe(false)
  const { stdout } = await execa("git", ["worktree", "list"], { cwd: workDir })
  expect(stdout.split("\n")).toHaveLength(2)
  await page.getByRole("button", { name: "Show the panel" }).click()
  await page.locator(".file[aria-label='tide.txt']").waitFor()
  await page.locator(".changes-base", { hasText: "against main" }).waitFor()
}, 180_000)

test("the preview follows whether a server listens", async () => {
  const port = freePort()
  model.on("tunnel", [tool("register_tunnel", { name: "web", port }), text("Registered.")])
  await openConversation(page, stage, "tunnel")
  await sendPrompt(page, "@@tunnel@@")
  await turnIsOver(page, "@@tunnel@@")
  await page.goto(`${stage.origin}/c/local/web:tunnel?panel=preview`)
  const state = (words: string) => page.locator(".preview-state", { hasText: words }).waitFor()
  await state("not listening")
  const server = Bun.serve({ hostname: "127.0.0.1", port, fetch: () => new Response("shore") })
  try {
    await page.locator(".preview-state.is-on").waitFor()
  } finally {
    await server.stop(true)
  }
  await state("not listening")
})

test("arrow keys and buttons show the images before and after the open one", async () => {
  const png =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
  const command = ["a", "b", "c"]
    .map(
      (name) =>
        `echo ${png} | base64 -d > output/display/${name}.png; echo ${name} >> output/display/${name}.png`,
    )
    .join("; ")
  model.on("pictures", [
    tool("bash", { command: `mkdir -p output/display; ${command}`, description: "Draw" }),
    text("Drawn."),
  ])
  await openConversation(page, stage, "pictures")
  await sendPrompt(page, "@@pictures@@")
  await turnIsOver(page, "@@pictures@@")
  await page.goto(`${stage.origin}/c/local/web:pictures?panel=images`)
  await eventually("three images", async () => (await page.locator(".images .image").count()) === 3)
  await page.locator(".images .image").first().click()
  const layer = page.getByRole("dialog")
  const at = (words: string) => layer.getByText(words).waitFor()
  await at("3 of 3")
  expect(await layer.getByRole("button", { name: "The image after" }).isDisabled()).toBe(true)
  await page.keyboard.press("ArrowLeft")
  await at("2 of 3")
  await layer.getByRole("button", { name: "The image before" }).click()
  await at("1 of 3")
  await page.keyboard.press("ArrowLeft")
  await page.keyboard.press("ArrowRight")
  await at("2 of 3")
  await layer.locator("img").waitFor()
  await page.keyboard.press("Escape")
  await layer.waitFor({ state: "detached" })
})

test("a panel whose program is not installed names it and how to get it", async () => {
  await page.goto(`${stage.origin}/c/local/web:pictures?panel=editor`)
  const panel = page.locator("#tabpanel")
  await panel.getByText("code-server is not installed").waitFor()
  await panel.getByText("npm install --global code-server").waitFor()
  await page.goto(`${stage.origin}/c/local/web:pictures?panel=desktop`)
  await panel.getByText("SANDPIPER_SERVICES=vnc").waitFor()
  expect(opened.problems).toEqual([])
})
