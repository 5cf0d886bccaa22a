/** The main path by keyboard alone, and the page on the smallest screens and at the largest zoom. */
import { expect, test } from "bun:test"
import type { Page } from "playwright-core"
import { text, tool } from "../../kit/model.ts"
import { openConversation, sendPrompt, turnIsOver, until } from "../../kit/page.ts"
import type { Ground } from "./ground.ts"

const focused = (page: Page): Promise<string> =>
  page.evaluate(`(() => {
    const one = document.activeElement
    return one.id || one.getAttribute("aria-label") || one.innerText.trim()
  })()`)

/** Presses a key until the focus is on a control with this name. */
const walkTo = async (page: Page, name: string, key = "Tab"): Promise<void> => {
  for (let presses = 0; presses < 60; presses++) {
    if ((await focused(page)) === name) return
    await page.keyboard.press(key)
  }
  throw new Error(`no way to ${name} by ${key}: the focus is on ${await focused(page)}`)
}

const WIDE = [
  `A word without an end: ${"x".repeat(300)}`,
  `| a | b |\n|---|---|\n| ${"cell ".repeat(60)} | ${"y".repeat(200)} |`,
  `\`\`\`ts\nconst long = "${"z".repeat(400)}"\n\`\`\``,
  `An address: https://example.com/${"path/".repeat(50)}`,
].join("\n\n")

const overflow = (page: Page): Promise<number> =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

export const testKeyboardAndSizes = (ground: () => Ground): void => {
  test("the main path works by keyboard alone: prompt, permission, question, search, panel, settings, another conversation", async () => {
    const { stage, model } = ground()
    model.on("keys", [
      tool("bash", { command: "echo by-keyboard", description: "Echo" }),
      tool("question", {
        questions: [
          {
            question: "Go on?",
            header: "Go",
            options: [
              { label: "Yes", description: "go" },
              { label: "No", description: "stop" },
            ],
          },
        ],
      }),
      text("By keyboard alone."),
    ])
    const { page, context } = await stage.open()
    await openConversation(page, stage, "keys")
    await walkTo(page, "Skip to the prompt", "Shift+Tab")
    await page.keyboard.press("Enter")
    await until(page, `document.activeElement.id === "prompt"`)
    await page.keyboard.type("@@keys@@")
    await page.keyboard.press("Enter")
    await page.getByRole("button", { name: "Allow once" }).waitFor()
    // The focus stays in the prompt; the permission is reached backwards and granted by a press of its button.
    expect(await focused(page)).toBe("prompt")
    await walkTo(page, "Allow once", "Shift+Tab")
    await page.keyboard.press("Enter")
    await page.locator("[data-option='2']").waitFor()
    // A digit is an answer outside of fields.
    await page.keyboard.press("F6")
    await page.keyboard.press("2")
    await page.locator(".turn-foot").waitFor()
    await turnIsOver(page, "@@keys@@")
    expect(await page.locator(".asked").innerText()).toContain("You: No")
    // Round the regions.
    await page.locator("#prompt").focus()
    await page.keyboard.press("Shift+F6")
    expect(await focused(page)).toBe("log")
    await page.keyboard.press("F6")
    expect(await focused(page)).toBe("prompt")
    // A row of the log opens and closes.
    await page.keyboard.press("Shift+F6")
    await walkTo(page, await page.locator("[data-fold]").first().innerText())
    await page.keyboard.press("Enter")
    await page.locator("[data-fold][aria-expanded=true]").waitFor()
    // The panel by its key, its tabs by arrows.
    await page.keyboard.press("Control+j")
    await page.locator("#tab-changes").waitFor()
    await page.locator("#tab-changes").focus()
    await page.keyboard.press("End")
    await page.locator("#tab-editor[aria-selected=true]").waitFor()
    await walkTo(page, "More panels")
    await page.keyboard.press("Enter")
    await until(page, `document.activeElement.closest("[role=menu]")`)
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await page.locator("#tab-memories[aria-selected=true]").waitFor()
    await page.keyboard.press("Control+j")
    await page.locator("#panel").waitFor({ state: "detached" })
    // Layers give the focus back.
    await page.locator("#prompt").focus()
    await page.keyboard.press("Control+,")
    await page.locator("dialog.settings").waitFor()
    await page.keyboard.press("Escape")
    await until(page, `document.activeElement.id === "prompt"`)
    await page.keyboard.press("Control+Shift+O")
    await page.getByText("What should be done?").waitFor()
    await page.keyboard.press("Control+k")
    await until(page, `document.activeElement.closest("dialog.palette")`)
    await page.keyboard.type("By keyboard alone")
    await page.locator(".palette-row", { hasText: "By keyboard alone" }).first().waitFor()
    await page.keyboard.press("Enter")
    await page.locator(".prose", { hasText: "By keyboard alone." }).waitFor()
    await context.close()
  })

  test.each([
    ["320 pixels wide", 320, 640],
    ["1280 by 1024 at a zoom of 400 %", 320, 256],
  ])("at %s nothing scrolls sideways and the prompt can be used", async (_name, width, height) => {
    const { stage, model, page } = ground()
    const name = `size-${width}-${height}`
    model.on(name, [text(WIDE), text(WIDE)])
    await page.setViewportSize({ width, height })
    await openConversation(page, stage, name)
    await sendPrompt(page, `@@${name}@@`)
    await turnIsOver(page, `@@${name}@@`)
    expect(await overflow(page)).toBe(0)
    const prompt = await page.locator("#prompt").boundingBox()
    expect((prompt?.y ?? height) + (prompt?.height ?? 0)).toBeLessThanOrEqual(height)
    expect(prompt?.width ?? 0).toBeGreaterThan(200)
    // Wide content scrolls in itself.
    await page.locator(".code pre").last().evaluate("(one) => { one.scrollLeft = 100 }")
    for (const panel of ["changes", "terminal", "images", "memories"]) {
      await page.goto(`${stage.origin}/c/local/web:${name}?panel=${panel}`)
      await page.locator(".panel-body").first().waitFor()
      expect([panel, await overflow(page)]).toEqual([panel, 0])
    }
    await page.goto(`${stage.origin}/c/local/web:${name}`)
    await page.locator(".turn-foot").waitFor()
    await page.keyboard.press("Control+,")
    await page.locator("dialog.settings").waitFor()
    expect(await overflow(page)).toBe(0)
    const layer = await page.locator("dialog.settings").boundingBox()
    expect(layer?.width ?? 0).toBeLessThanOrEqual(width)
    await page.keyboard.press("Escape")
    await page.setViewportSize({ width: 1440, height: 900 })
  })
}
