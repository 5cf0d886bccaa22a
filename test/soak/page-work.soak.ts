/** A person works with the agent in the browser: the compiled binary, the real OpenCode, the demo model, Chromium. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { startScriptedModel, text } from "../kit/model.ts"
import {
  firstTurn,
  type OpenedPage,
  type PageStage,
  startPage,
  until,
  untilStill,
} from "../kit/page.ts"

let stage: PageStage
let opened: OpenedPage
let page: Page

beforeAll(async () => {
  stage = await startPage({ SANDPIPER_PERMISSIONS: "relay" })
  opened = await stage.open()
  page = opened.page
})
afterAll(() => stage.stop())

const send = async (words: string, to = page) => {
  await to.locator("#prompt").fill(words)
  await to.locator("#prompt").press("Enter")
}
/** The last turn of the page is the one of this prompt, and it is over. Turns far from the view are not in the document. */
const settled = (prompt: string, on = page) =>
  until(
    on,
    `(() => {
      const turn = [...document.querySelectorAll(".turn")].at(-1)
      return !document.querySelector(".status, .is-pending, .is-asking") &&
        turn?.querySelector(".bubble-text")?.textContent === ${JSON.stringify(prompt)} &&
        turn.querySelector(".turn-foot, .failed")
    })()`,
  )

test("the login code is in neither the address nor the history, and a used link shows the login screen", async () => {
  // The page shows the prompt before it knows the last conversation.
  await page.waitForURL(`${stage.origin}/c/local/web:default`)
  const link = stage.link()
  const first = await stage.browser.newContext()
  const entered = await first.newPage()
  await entered.goto(link)
  await entered.locator("#prompt").waitFor()
  expect(entered.url()).not.toContain("login")
  await first.close()
  const second = await stage.browser.newContext()
  const late = await second.newPage()
  await late.goto(link)
  await late.getByText("This browser is not logged in").waitFor()
  await second.close()
})

test("a command waits for its permission, which no key grants; then its output and the answer are shown", async () => {
  const command = "run: echo hello-$((40 + 2)) | tee allowed.txt"
  await send(command)
  await page.getByText("Permission needed").first().waitFor()
  await page.locator("#log").focus()
  for (const key of ["1", "y", "Enter"]) await page.keyboard.press(key)
  const file = Bun.file(join(stage.sandbox.workDir, "allowed.txt"))
  expect(await file.exists()).toBeFalse()
  await page.reload()
  await page.getByRole("button", { name: "Allow once" }).click()
  await settled(command)
  expect(await file.exists()).toBeTrue()
  await page.getByRole("button", { name: /Ran/ }).first().waitFor()
  expect(await page.locator(".reply").last().textContent()).toContain("hello-42")
})

test("a question is answered by a button, by a digit and by typing", async () => {
  await send("ask")
  await page.getByRole("button", { name: /Heron/ }).click()
  await settled("ask")
  expect(await page.locator(".reply").last().textContent()).toContain("Heron")
  await send("ask")
  await page.locator("[data-option='3']").waitFor()
  await page.locator("#log").focus()
  await page.keyboard.press("3")
  await settled("ask")
  expect(await page.locator(".reply").last().textContent()).toContain("Swift")
  await send("ask")
  await page.getByPlaceholder("Type an answer").waitFor()
  await send("a typed answer")
  await settled("ask")
  expect(await page.locator(".reply").last().textContent()).toContain("a typed answer")
})

const attachNote = async () => {
  const buffer = Buffer.from("attached")
  await page
    .locator("input[type=file]")
    .setInputFiles({ name: "note.txt", mimeType: "text/plain", buffer })
  await page.locator("#dock").getByText("note.txt").waitFor()
}

test("a failed turn says why and can be tried again; a plan is one closed line when it is done", async () => {
  await send("fail")
  await page.locator(".failed").waitFor()
  await page.getByRole("button", { name: "Try again" }).click()
  await until(page, `document.querySelectorAll(".failed").length >= 2`)
  await send("plan")
  await settled("plan")
  expect(
    await page.getByRole("button", { name: /^Plan/ }).last().getAttribute("aria-expanded"),
  ).toBe("false")
})

test("a failed prompt with files is not sent again without them: it goes back into the composer", async () => {
  const failed = await page.locator(".failed").count()
  await attachNote()
  await send("fail")
  await until(page, `document.querySelectorAll(".failed").length > ${failed}`)
  expect(await page.locator(".failed").last().textContent()).toContain("Attach its files again")
  await page.getByRole("button", { name: "Try again" }).last().click()
  await until(page, `document.querySelector("#prompt")?.value === "fail"`)
  await page.locator("#prompt").fill("")
})

/** The text of the log, once the turns near the view are in the document: it has been the same for ten frames. */
const shownText = (): Promise<string> =>
  page.evaluate<string>(`new Promise((resolve) => {
    let [text, frames] = ["", 0]
    const look = () => {
      const now = document.querySelector(".log")?.innerText ?? ""
      frames = now !== "" && now === text ? frames + 1 : 0
      text = now
      if (frames === 10) resolve(text)
      else requestAnimationFrame(look)
    }
    look()
  })`)

test("a reload shows the same conversation, and a draft and its files survive a reload and a switch", async () => {
  await page.locator("#prompt").fill("half a thought")
  await attachNote()
  const before = await shownText()
  await page.reload()
  await page.locator(".turn-foot").last().waitFor()
  // Both end with the same turns. How many turns before them are in the document depends on what was measured.
  await until(
    page,
    `((now, before) => now.length > 100 && (now.endsWith(before) || before.endsWith(now)))(
      document.querySelector(".log").innerText, ${JSON.stringify(before)})`,
  )
  expect(await page.locator("#prompt").inputValue()).toBe("half a thought")
  await page.locator("#dock").getByText("note.txt").waitFor()
  await page.getByRole("button", { name: "New conversation" }).first().click()
  await page.getByText("What should be done?").waitFor()
  expect(await page.locator("#prompt").inputValue()).toBe("")
  await page.goBack()
  await until(page, `document.querySelector("#prompt")?.value === "half a thought"`)
  await page.getByRole("button", { name: "Remove note.txt" }).click()
})

test("outside of a git repository undo says before and after that files stay, and they do", async () => {
  await page.goto(`${stage.origin}/c/local/web:undo`)
  await send("write: kept.txt")
  await page.getByRole("button", { name: "Allow once" }).click()
  await settled("write: kept.txt")
  await page.locator(".prompt").hover()
  await page.getByRole("button", { name: "Undo from here" }).click()
  await page.getByText("Changed files stay: they go back in a git repository only.").waitFor()
  await page.getByRole("button", { name: "Undo", exact: true }).click()
  await page.locator(".log").getByText("Undone. The changes of files stay").waitFor()
  expect(await page.locator(".prompt").count()).toBe(0)
  expect(await Bun.file(join(stage.sandbox.workDir, "kept.txt")).exists()).toBeTrue()
  await page.goto(`${stage.origin}/c/local/web:default`)
  await page.locator(".turn-foot").last().waitFor()
})

test("Enter that confirms a candidate of an input method does not send", async () => {
  await page.locator("#prompt").fill("にほん")
  await page.locator("#prompt").dispatchEvent("keydown", { key: "Enter", keyCode: 229 })
  await page.locator("#prompt").dispatchEvent("keydown", { key: "Enter", isComposing: true })
  expect(await page.locator("#prompt").inputValue()).toBe("にほん")
  // Turns come into the document and leave it with the view, so the prompt is looked for by its text.
  expect(await page.locator(".prompt", { hasText: "にほん" }).count()).toBe(0)
})

test("what the agent says is shown and never run", async () => {
  const vectors =
    "<img src=x onerror=window.pwned=1><script>window.pwned=1</script> [a](javascript:window.pwned=1) <svg/onload=window.pwned=1>"
  await page.locator("#prompt").fill(vectors)
  await page.locator("#prompt").press("Enter")
  await settled(vectors)
  expect(await page.locator(".reply").last().textContent()).toContain("onerror")
  expect(await page.evaluate("window.pwned")).toBeUndefined()
  expect(await page.locator(".log img, .log script, .log svg[onload]").count()).toBe(0)
  expect(opened.problems).toEqual([])
})

test("at 320 pixels nothing scrolls sideways, and the conversation can be used", async () => {
  await page.setViewportSize({ width: 320, height: 640 })
  const overflow = () => page.evaluate<number>("document.documentElement.scrollWidth - innerWidth")
  expect(await overflow()).toBeLessThanOrEqual(0)
  await page.getByRole("button", { name: "Show the conversations" }).click()
  await page.getByRole("navigation", { name: "Conversations" }).waitFor()
  expect(await overflow()).toBeLessThanOrEqual(0)
  await page.keyboard.press("Escape")
  await page.setViewportSize({ width: 1440, height: 900 })
})

test("a reader who has moved up stays where they are while an answer streams in", async () => {
  await page.locator("#log").hover()
  await page.mouse.wheel(0, -600)
  await page.getByRole("button", { name: "Newest" }).waitFor()
  await untilStill(page)
  const [turn, top] = await firstTurn(page)
  // Another client sends a prompt: this reader did nothing.
  const other = await stage.open()
  await send("think", other.page)
  let isOver = false
  const answered = settled("think", other.page).finally(() => void (isOver = true))
  for (let samples = 0; !isOver || samples < 20; samples += 1) {
    const [nowTurn, nowTop] = await firstTurn(page)
    expect(nowTurn).toBe(turn)
    expect(Math.abs(nowTop - top)).toBeLessThanOrEqual(1)
    await page.evaluate("new Promise(requestAnimationFrame)")
  }
  await answered
  await other.context.close()
  await page.getByRole("button", { name: "Newest" }).click()
})

test("two endpoints that a person adds in the settings both answer, also after one was changed without its key", async () => {
  const models = await Promise.all([startScriptedModel(), startScriptedModel()])
  const names = ["Alpha", "Beta"] as const
  const field = (label: string) =>
    page.locator("dialog.settings").getByLabel(label, { exact: true })
  const saved = () => page.locator("dialog.settings [role=status]", { hasText: "Saved" }).waitFor()
  const ask = async (name: string, prompt: string) => {
    await page.locator(".picker-button").click()
    await page.getByRole("combobox", { name: "Search models" }).fill(`${name.toLowerCase()}/m1`)
    await page.getByRole("option").first().click()
    await send(prompt)
    await settled(prompt)
    return page.locator(".reply").last().innerText()
  }
  await page.goto(`${stage.origin}/c/local/web:endpoints`)
  await page.keyboard.press("Control+,")
  for (const [index, name] of names.entries()) {
    models[index]?.on("first", [text(`${name} answers first.`)])
    models[index]?.on("second", [text(`${name} answers again.`)])
    await field("Name").fill(name)
    await field("Address").fill(models[index]?.url ?? "")
    await field("Key, if it needs one").fill(models[index]?.apiKey ?? "")
    await page.getByRole("button", { name: "Add the endpoint" }).click()
    await saved()
  }
  await page.keyboard.press("Escape")
  for (const name of names) expect(await ask(name, "@@first@@")).toContain(`${name} answers first.`)
  await page.keyboard.press("Control+,")
  await page.getByRole("button", { name: "Change Alpha" }).click()
  await field("Name").fill("Alpha renamed")
  await page.getByRole("button", { name: "Save the endpoint" }).click()
  await saved()
  await page.keyboard.press("Escape")
  for (const name of names)
    expect(await ask(name, "@@second@@")).toContain(`${name} answers again.`)
  await page.keyboard.press("Control+,")
  await page.getByRole("button", { name: "Remove Alpha renamed" }).click()
  await saved()
  await page.keyboard.press("Escape")
  await page.locator(".picker-button").click()
  await page.getByRole("option", { name: /m1/i }).first().waitFor()
  await until(
    page,
    `![...document.querySelectorAll("[role=option]")].some((one) => /alpha/i.test(one.innerText))`,
  )
  await page.keyboard.press("Escape")
  await Promise.all(models.map((one) => one.stop()))
})
