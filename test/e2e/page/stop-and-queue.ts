/** Stopping a turn, the queue of prompts, and undo, as a person does them. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { reply, text, tool, waitFor } from "../../kit/model.ts"
import { openConversation, sendPrompt, turnIsOver, until } from "../../kit/page.ts"
import { eventually, gate, type Ground } from "./ground.ts"

export const testStopAndQueue = (ground: () => Ground): void => {
  /** Starts a turn that writes some words and then waits for the gate. */
  const startHeldTurn = async (name: string) => {
    const { stage, model, page } = ground()
    const held = gate()
    model.on(name, [reply(text("First words."), waitFor(held.opened), text(" Last words."))])
    await openConversation(page, stage, name)
    await sendPrompt(page, `@@${name}@@`)
    await page.locator(".prose", { hasText: "First words." }).waitFor()
    return { page, model, held }
  }

  test("the stop button ends a turn, keeps its words and says that it was stopped", async () => {
    const { page, model, held } = await startHeldTurn("stop-button")
    const { signal } = model.requests.at(-1) ?? {}
    await page.getByRole("button", { name: "Stop the agent" }).click()
    await turnIsOver(page, "@@stop-button@@")
    expect(await page.locator(".reply").last().innerText()).toMatch(/First words\.\s+Stopped\./)
    await eventually("the model's stream is closed", () => signal?.aborted === true)
    held.open()
  })

  test("Escape stops a turn at once when nothing is typed, and only the second time when text is typed", async () => {
    const first = await startHeldTurn("escape")
    await first.page.keyboard.press("Escape")
    await turnIsOver(first.page, "@@escape@@")
    expect(await first.page.locator(".stopped").count()).toBe(1)
    first.held.open()
    const { page, held } = await startHeldTurn("escape-typed")
    await page.locator("#prompt").fill("half a thought")
    // Two Escapes within a second, by the page's own clock: how fast the test presses them does not matter.
    await page.evaluate("window.realNow = Date.now, Date.now = () => 1e12")
    await page.locator("#prompt").press("Escape")
    expect(await page.locator(".status-words").innerText()).not.toBe("Stopping...")
    await page.evaluate("Date.now = () => 1e12 + 500")
    await page.locator("#prompt").press("Escape")
    await page.evaluate("Date.now = window.realNow")
    await until(page, `document.querySelector(".stopped")`)
    expect(await page.locator("#prompt").inputValue()).toBe("half a thought")
    await page.locator("#prompt").fill("")
    held.open()
  })

  test("a queued prompt is sent first, taken back to be edited, or removed; the others run in their order", async () => {
    const { page, model, held } = await startHeldTurn("queue")
    for (const prompt of ["queued one", "queued two", "queued three", "queued four"]) {
      await sendPrompt(page, prompt)
      await page.locator(".queue-row", { hasText: prompt }).waitFor()
    }
    const rows = () => page.locator(".queue-text").allInnerTexts()
    const act = (prompt: string, name: string) =>
      page.locator(".queue-row", { hasText: prompt }).getByRole("button", { name }).click()
    await act("queued three", "Send this first")
    await eventually("the order has changed", async () => (await rows())[0] === "queued three")
    await act("queued two", "Take back and edit")
    await until(page, `document.querySelector("#prompt").value === "queued two"`)
    await act("queued four", "Remove from the queue")
    await eventually("two prompts are left", async () => (await rows()).length === 2)
    expect(await rows()).toEqual(["queued three", "queued one"])
    await page.locator("#prompt").fill("")
    held.open()
    await turnIsOver(page, "queued one")
    expect(await page.locator(".bubble-text").allInnerTexts()).toEqual([
      "@@queue@@",
      "queued three",
      "queued one",
    ])
    const seen = JSON.stringify(model.requests.at(-1)?.messages)
    expect(seen.indexOf("queued three")).toBeLessThan(seen.indexOf("queued one"))
    expect(seen).not.toMatch(/queued (two|four)/)
  })

  test("undo asks first, then removes the prompt and all after it, and restores the files", async () => {
    const { stage, model, page } = ground()
    const file = join(stage.sandbox.workDir, "undone.txt")
    model.on("undo-write", [tool("write", { filePath: file, content: "new\n" }), text("Written.")])
    model.on("undo-after", [text("After it.")])
    await openConversation(page, stage, "undo")
    await sendPrompt(page, "@@undo-write@@")
    await page.getByRole("button", { name: "Allow once" }).click()
    await turnIsOver(page, "@@undo-write@@")
    expect(await Bun.file(file).text()).toBe("new\n")
    await sendPrompt(page, "@@undo-after@@")
    await turnIsOver(page, "@@undo-after@@")
    const prompt = page.locator(".prompt", { hasText: "@@undo-write@@" })
    await prompt.hover()
    await prompt.getByRole("button", { name: "Undo from here" }).click()
    await page.getByText("Undo this and 3 messages after it? Files go back too.").waitFor()
    await prompt.getByRole("button", { name: "Undo", exact: true }).click()
    await page.getByText("What should be done?").waitFor()
    await eventually("the file is gone", async () => !(await Bun.file(file).exists()))
  })
}
