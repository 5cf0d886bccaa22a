/**
 * Every view of the page, in light and dark, on a desktop, a tablet and a phone: axe-core finds nothing, and nothing
 * scrolls sideways. `npm test` looks at four of them.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Page } from "playwright-core"
import { gate } from "../e2e/page/ground.ts"
import { violations } from "../kit/axe.ts"
import { makeRepository } from "../kit/conversation.ts"
import {
  httpError,
  reasoning,
  reply,
  type ScriptedModel,
  startScriptedModel,
  text,
  tool,
  waitFor,
} from "../kit/model.ts"
import { type OpenedPage, type PageStage, sendPrompt, startPage, turnIsOver } from "../kit/page.ts"

const SIZES = { desktop: [1440, 900], tablet: [900, 1100], phone: [390, 844] } as const
const ANSWER = [
  "## A heading\n\nWords with `code`, a [link](https://example.com) and `src/a.ts:12`.",
  "| a | b |\n|---|---|\n| 1 | 2 |",
  "```ts\nconst answer: number = 42\n```",
  "- [x] done\n- [ ] open",
].join("\n\n")

let model: ScriptedModel
let stage: PageStage
let screens: readonly (OpenedPage & { readonly name: string })[] = []
const held = gate()

beforeAll(async () => {
  model = await startScriptedModel()
  stage = await startPage({ SANDPIPER_PERMISSIONS: "relay" }, { model, furnish: makeRepository })
  screens = await Promise.all(
    Object.entries(SIZES).flatMap(([device, [width, height]]) =>
      (["light", "dark"] as const).map(async (colorScheme) => ({
        ...(await stage.open({ colorScheme, viewport: { width, height }, bypassCSP: true })),
        name: `${device}, ${colorScheme}`,
      })),
    ),
  )
  model.on("answer", [
    reply(reasoning("**Planning** the work"), tool("read", { filePath: "README.md" })),
    tool("bash", { command: "echo one; exit 3", description: "Try" }),
    tool("write", { filePath: `${stage.sandbox.workDir}/src/a.ts`, content: "const a = 1\n" }),
    tool("todowrite", { todos: [{ content: "First", status: "completed", priority: "high" }] }),
    text(ANSWER),
  ])
  model.on("error", [httpError(400, { message: "the provider refuses" })])
  model.on("held", [reply(text("Working on it."), waitFor(held.opened), text(" Done."))])
  model.on("asks", [
    tool("question", {
      questions: [
        {
          question: "Which one?",
          header: "One",
          options: [
            { label: "This", description: "the first" },
            { label: "That", description: "the second" },
          ],
        },
      ],
    }),
    text("Thanks."),
  ])
  model.on("needs", [tool("bash", { command: "ls -la", description: "List" }), text("Listed.")])
}, 120_000)
afterAll(async () => {
  held.open()
  await stage?.stop()
  await model?.stop()
})

const at = (conversation: string, panel?: string) =>
  `${stage.origin}/c/local/web:${conversation}${panel === undefined ? "" : `?panel=${panel}`}`

/** Shows the view on every screen and looks at it. */
const look = async (show: (page: Page) => Promise<unknown>): Promise<void> => {
  for (const { name, page } of screens) {
    await show(page)
    // Motions of the drawer and the panel take 200 ms; colours that are still moving have no contrast of their own.
    await page.evaluate(
      "Promise.all(document.getAnimations().filter((one) => one.effect.getTiming().iterations !== Infinity).map((one) => one.finished))",
    )
    expect([name, ...(await violations(page))]).toEqual([name])
    const overflow = await page.evaluate<number>(
      "document.documentElement.scrollWidth - document.documentElement.clientWidth",
    )
    expect([name, overflow]).toEqual([name, 0])
  }
}
const show = (path: string, selector: string) => async (page: Page) => {
  await page.goto(path)
  await page.locator(selector).first().waitFor()
}
const press = (path: string, keys: string, selector: string) => async (page: Page) => {
  await show(path, "#prompt")(page)
  await page.keyboard.press(keys)
  await page.locator(selector).first().waitFor()
}
/** The first screen is where the person works. */
const person = (): Page => {
  const page = screens[0]?.page
  if (!page) throw new Error("the screens open in beforeAll")
  return page
}
const LIMIT_MS = 300_000

test("a new conversation", () => look(show(at("empty"), ".greeting")), LIMIT_MS)

test(
  "an answer with tools, a failed command, a diff, a plan, code and a table",
  async () => {
    await person().goto(at("answer"))
    await sendPrompt(person(), "@@answer@@")
    for (let asked = 0; asked < 2; asked++) {
      const allow = person().getByRole("button", { name: "Allow once" })
      await allow.click()
      await allow.waitFor({ state: "detached" })
    }
    await turnIsOver(person(), "@@answer@@")
    await look(async (page) => {
      await show(at("answer"), ".turn-foot")(page)
      const closed = page.locator("[data-fold][aria-expanded=false]")
      for (let left = await closed.count(); left > 0; left--) await closed.first().click()
    })
  },
  LIMIT_MS,
)

test(
  "a failed turn",
  async () => {
    await person().goto(at("error"))
    await sendPrompt(person(), "@@error@@")
    await person().locator(".failed").waitFor()
    await look(show(at("error"), ".failed"))
  },
  LIMIT_MS,
)

test.each([
  "changes",
  "terminal",
  "preview",
  "desktop",
  "editor",
  "review",
  "images",
  "tasks",
  "memories",
])("the panel %s", (panel) => look(show(at("answer", panel), ".panel-body")), LIMIT_MS)

test("the search", () => look(press(at("answer"), "Control+k", "dialog.palette")), LIMIT_MS)

test.each(["Models and keys", "Instructions", "Tools", "Notifications", "Appearance", "Shortcuts"])(
  "the settings: %s",
  (name) =>
    look(async (page) => {
      await press(at("answer"), "Control+,", "dialog.settings")(page)
      await page.locator(".settings-nav").getByRole("button", { name }).click()
      await page.getByRole("region", { name }).waitFor()
    }),
  LIMIT_MS,
)

test(
  "the side with the menu of a row",
  () =>
    look(async (page) => {
      await show(at("answer"), "#prompt")(page)
      if ((await page.locator("#side").count()) === 0)
        await page.locator(".bar").getByRole("button", { name: "Show the conversations" }).click()
      await page.locator(".row-place").first().hover()
      await page
        .getByRole("button", { name: /^Actions for/ })
        .first()
        .click()
      await page.getByRole("menuitem").first().waitFor()
    }),
  LIMIT_MS,
)

test(
  "a running turn with a queue",
  async () => {
    await person().goto(at("held"))
    await sendPrompt(person(), "@@held@@")
    await person().locator(".prose", { hasText: "Working on it." }).waitFor()
    await sendPrompt(person(), "queued one")
    await person().locator(".queue-row").waitFor()
    await look(show(at("held"), ".queue-row"))
  },
  LIMIT_MS,
)

test(
  "a question, and then a permission beside it",
  async () => {
    await person().goto(at("asks"))
    await sendPrompt(person(), "@@asks@@")
    await look(show(at("asks"), "[data-option='1']"))
    await person().goto(at("needs"))
    await sendPrompt(person(), "@@needs@@")
    await look(show(at("needs"), ".decide"))
  },
  LIMIT_MS,
)

test(
  "no connection, an unknown address, and a browser that is not logged in",
  async () => {
    await look(async (page) => {
      await page.routeWebSocket(/\/hub\/sessions\//, (socket) => {
        void socket.close({ code: 1011, reason: "cut by the test" })
      })
      await show(at("answer"), ".banner")(page)
    })
    await look(show(`${stage.origin}/c/nothing`, "main.login"))
    for (const { page } of screens) await page.evaluate("localStorage.clear()")
    await look(show(at("answer"), "main.login"))
  },
  LIMIT_MS,
)
