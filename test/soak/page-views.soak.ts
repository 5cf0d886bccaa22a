/**
 * Every view of the page, in light and dark, on a desktop, a tablet and a phone: axe-core finds nothing, and nothing
 * scrolls sideways, also at 320 pixels. `npm test` looks at four of them. The table `VIEWS` names them: its first twelve,
 * in two themes, on a desktop and a phone, are the 48 views that must have no violation; the others are more.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Page } from "playwright-core"
import { gate } from "../e2e/page/ground.ts"
import { settled, violations } from "../kit/axe.ts"
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
const tell = async (name: string): Promise<void> => {
  await person().goto(at(name))
  await person().locator("#prompt").waitFor()
  await sendPrompt(person(), `@@${name}@@`)
}

interface View {
  readonly name: string
  readonly show: (page: Page) => Promise<unknown>
  /** What the agent and the person do before the view exists; it happens once. */
  readonly prepare?: () => Promise<unknown>
}

const openFolds = async (page: Page) => {
  const closed = page.locator("[data-fold][aria-expanded=false]")
  for (let left = await closed.count(); left > 0; left--) await closed.first().click()
}
const settings = (name: string): View => ({
  name: `the settings: ${name}`,
  show: async (page) => {
    await press(at("answer"), "Control+,", "dialog.settings")(page)
    await page.locator(".settings-nav").getByRole("button", { name }).click()
    await page.getByRole("region", { name }).waitFor()
  },
})
const panel = (name: string): View => ({
  name: `the panel ${name}`,
  show: (page) => show(at("answer", name), ".panel-body")(page),
})

/** In the order in which they are shown: a question is docked in every conversation, and a login ends with the last ones. */
const VIEWS: readonly View[] = [
  // The 48 views: these twelve.
  { name: "a new conversation", show: (page) => show(at("empty"), ".greeting")(page) },
  {
    name: "an answer with tools, a failed command, a diff, a plan, code and a table",
    prepare: async () => {
      await tell("answer")
      for (let asked = 0; asked < 2; asked++) {
        const allow = person().getByRole("button", { name: "Allow once" })
        await allow.click()
        await allow.waitFor({ state: "detached" })
      }
      await turnIsOver(person(), "@@answer@@")
    },
    show: async (page) => {
      await show(at("answer"), ".turn-foot")(page)
      await openFolds(page)
    },
  },
  {
    name: "a failed turn",
    prepare: async () => {
      await tell("error")
      await person().locator(".failed").waitFor()
    },
    show: (page) => show(at("error"), ".failed")(page),
  },
  panel("changes"),
  panel("terminal"),
  { name: "the search", show: (page) => press(at("answer"), "Control+k", "dialog.palette")(page) },
  settings("Models and keys"),
  {
    name: "the side with the menu of a row",
    show: async (page) => {
      await show(at("answer"), "#prompt")(page)
      if ((await page.locator("#side").count()) === 0)
        await page.locator(".bar").getByRole("button", { name: "Show the conversations" }).click()
      await page.locator(".row-place").first().hover()
      await page
        .getByRole("button", { name: /^Actions for/ })
        .first()
        .click()
      await page.getByRole("menuitem").first().waitFor()
    },
  },
  {
    name: "a running turn with a queue",
    prepare: async () => {
      await tell("held")
      await person().locator(".prose", { hasText: "Working on it." }).waitFor()
      await sendPrompt(person(), "queued one")
      await person().locator(".queue-row").waitFor()
    },
    show: (page) => show(at("held"), ".queue-row")(page),
  },
  {
    name: "a question",
    prepare: async () => {
      await tell("asks")
      await person().locator("[data-option='1']").waitFor()
    },
    show: (page) => show(at("asks"), "[data-option='1']")(page),
  },
  {
    name: "a permission beside a question",
    prepare: async () => {
      await tell("needs")
      await person().locator(".decide").waitFor()
    },
    show: (page) => show(at("needs"), ".decide")(page),
  },
  {
    name: "the models that can be chosen, beside files of the prompt",
    show: async (page) => {
      await show(at("answer"), "#prompt")(page)
      await page.locator("input[type=file]").setInputFiles([
        { name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("a note") },
        { name: "voice.ogg", mimeType: "audio/ogg", buffer: Buffer.from("OggS") },
        { name: "paper.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF-1.4") },
      ])
      await page.getByRole("button", { name: "Remove paper.pdf" }).waitFor()
      await page.locator(".picker-button").click()
      await page.locator(".picker-row").first().waitFor()
    },
  },
  // More than the 48.
  ...["preview", "desktop", "editor", "review", "images", "tasks", "memories"].map(panel),
  ...["Instructions", "Tools", "Notifications", "Appearance", "Shortcuts"].map(settings),
  {
    name: "no connection",
    show: async (page) => {
      await page.routeWebSocket(/\/hub\/sessions\//, (socket) => {
        void socket.close({ code: 1011, reason: "cut by the test" })
      })
      await show(at("answer"), ".banner")(page)
    },
  },
  {
    name: "an unknown address",
    show: (page) => show(`${stage.origin}/c/nothing`, "main.login")(page),
  },
  {
    name: "a browser that is not logged in",
    show: async (page) => {
      await page.evaluate("localStorage.clear()")
      await show(at("answer"), "main.login")(page)
    },
  },
]

const SCREENS = Object.keys(SIZES).flatMap((device) =>
  (["light", "dark"] as const).map((theme) => `${device}, ${theme}`),
)
const rows = VIEWS.flatMap((view) => SCREENS.map((screen) => [view.name, screen, view] as const))
const prepared = new Map<View, Promise<unknown>>()

const overflow = (page: Page): Promise<number> =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

test("the table has the 48 views and more", () => {
  const isOfThe48 = (screen: string) => !screen.startsWith("tablet")
  expect(12 * SCREENS.filter(isOfThe48).length).toBe(48)
  expect(new Set(VIEWS.map(({ name }) => name)).size).toBe(27)
})

test.each(rows)(
  "%s (%s) has no violation and does not scroll sideways",
  async (_name, screen, view) => {
    if (view.prepare && !prepared.has(view)) prepared.set(view, view.prepare())
    await prepared.get(view)
    const page = screens.find(({ name }) => name === screen)?.page
    if (!page) throw new Error(`${screen} is not open`)
    await view.show(page)
    await settled(page)
    expect(await violations(page)).toEqual([])
    expect(await overflow(page)).toBe(0)
    if (!screen.startsWith("phone")) return
    // The narrowest screen.
    const [width, height] = SIZES.phone
    await page.setViewportSize({ width: 320, height })
    await settled(page)
    expect(await overflow(page)).toBe(0)
    await page.setViewportSize({ width, height })
  },
  120_000,
)
