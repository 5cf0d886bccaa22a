/** What the page keeps and offers around a conversation: places, paths, sub-agents, the menu of a row, a new version, swipes. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import type { Page, WebSocketRoute } from "playwright-core"
import { text, tool } from "../../kit/model.ts"
import { openConversation, sendPrompt, turnIsOver, until } from "../../kit/page.ts"
import { eventually, type Ground } from "./ground.ts"

/** The first turn in view and its distance from the top of the log. */
const placeOf = (page: Page): Promise<readonly [turn: string, top: number]> =>
  page.evaluate(`(() => {
    const top = document.querySelector("#log").getBoundingClientRect().top
    const turn = [...document.querySelectorAll("[data-turn]")].find((one) => one.getBoundingClientRect().bottom > top)
    return [turn?.dataset.turn ?? "", Math.round((turn?.getBoundingClientRect().top ?? 0) - top)]
  })()`)

/** A finger that moves over the screen. */
const swipe = async (page: Page, from: number, to: number): Promise<void> => {
  const debuggerSession = await page.context().newCDPSession(page)
  const touch = (type: "touchStart" | "touchMove" | "touchEnd", x: number) =>
    debuggerSession.send("Input.dispatchTouchEvent", {
      type,
      touchPoints: type === "touchEnd" ? [] : [{ x, y: 300 }],
    })
  await touch("touchStart", from)
  for (const part of [0.25, 0.5, 0.75, 1]) await touch("touchMove", from + (to - from) * part)
  await touch("touchEnd", to)
  await debuggerSession.detach()
}

export const testFeatures = (ground: () => Ground): void => {
  test("paths are shown without the workspace, and a path in the text opens the changes of its file", async () => {
    const { stage, model, page } = ground()
    const { workDir } = stage.sandbox
    model.on("paths", [
      tool("read", { filePath: join(workDir, "README.md") }),
      tool("write", { filePath: join(workDir, "docs/guide.md"), content: "one\ntwo\nthree\n" }),
      text("See `docs/guide.md:2`, and `console.log` for the rest."),
    ])
    await openConversation(page, stage, "paths")
    await sendPrompt(page, "@@paths@@")
    await page.getByRole("button", { name: "Allow once" }).click()
    await turnIsOver(page, "@@paths@@")
    const rows = await page.locator(".reply .fold-row").allInnerTexts()
    expect(rows.join(" ")).toContain("docs/guide.md")
    expect(rows.join(" ")).not.toContain(workDir)
    expect(await page.locator(".path-link").allInnerTexts()).toEqual(["docs/guide.md:2"])
    await eventually(
      "the runner has reported the change",
      async () =>
        (await page.locator("#prompt").fill("@docs"), await page.getByRole("option").count()) > 0,
    )
    await page.locator("#prompt").fill("")
    await page.locator(".path-link").click()
    await page
      .locator(".file[aria-label='docs/guide.md'] .is-selected", { hasText: "two" })
      .waitFor()
    // Two columns: the panel makes room for them.
    await page.getByRole("button", { name: "Side by side" }).click()
    await page.locator(".file[aria-label='docs/guide.md'] .is-sides .diff-none").first().waitFor()
    await page.getByRole("button", { name: "Side by side" }).click()
    await page.locator(".is-sides").first().waitFor({ state: "detached" })
  })

  test("the words of a sub-agent stand in its own row, and not in the answer", async () => {
    const { stage, model, page } = ground()
    model.on("parent", [
      tool("task", { description: "Look", prompt: "@@child@@ look", subagent_type: "general" }),
      text("The parent's answer."),
    ])
    model.on("child", [text("The child's words.")])
    await openConversation(page, stage, "sub-agent")
    await sendPrompt(page, "@@parent@@")
    await turnIsOver(page, "@@parent@@")
    await page.getByRole("button", { name: /Sub-agent/ }).click()
    await page.locator(".children", { hasText: "The child's words." }).first().waitFor()
    expect(await page.locator(".reply > .prose").allInnerTexts()).toEqual(["The parent's answer."])
  })

  test("a conversation is where the person left it after a switch and after a reload", async () => {
    const { stage, model, page } = ground()
    const long = Array.from({ length: 60 }, (_, index) => `Paragraph ${index}.`).join("\n\n")
    model.on("long-1", [text(long)])
    model.on("long-2", [text(long)])
    await openConversation(page, stage, "long")
    for (const name of ["@@long-1@@", "@@long-2@@"]) {
      await sendPrompt(page, name)
      await turnIsOver(page, name)
    }
    // As a drag of the scrollbar does it: at once, so that the place is settled when the button is there.
    await page.evaluate(`document.querySelector("#log").scrollTop -= 900`)
    await page.getByRole("button", { name: "Newest" }).waitFor()
    const [turn, top] = await placeOf(page)
    const isBack = async () => {
      const [nowTurn, nowTop] = await placeOf(page)
      return nowTurn === turn && Math.abs(nowTop - top) <= 2
    }
    await page.keyboard.press("Control+Shift+O")
    await page.getByText("What should be done?").waitFor()
    await page.goBack()
    await eventually("the same place after a switch", isBack)
    await page.reload()
    await page.locator("[data-turn]").first().waitFor()
    await eventually("the same place after a reload", isBack)
    expect(await page.locator(".newest.has-new").count()).toBe(0)
    await page.locator("#log").focus()
    await page.keyboard.press("End")
    await page.getByRole("button", { name: "Newest" }).waitFor({ state: "detached" })
  })

  test("the menu of a row renames a conversation and marks it as unseen, in every browser", async () => {
    const { stage, model, page } = ground()
    model.on("menu", [text("A row with a menu.")])
    await openConversation(page, stage, "menu")
    await sendPrompt(page, "@@menu@@")
    await turnIsOver(page, "@@menu@@")
    const second = await stage.open()
    await openConversation(second.page, stage, "elsewhere")
    const row = (of: Page, title: string) => of.locator(".row-place", { hasText: title })
    await row(second.page, "A row with a menu.").waitFor()
    // What one browser has seen is not news in another.
    await until(
      second.page,
      `![...document.querySelectorAll(".row.is-unseen .row-title")]
      .some((one) => one.innerText === "A row with a menu.")`,
    )
    const choose = async (title: string, item: string) => {
      await row(page, title).hover()
      await row(page, title)
        .getByRole("button", { name: /^Actions for/ })
        .click()
      await page.getByRole("menuitem", { name: item }).click()
    }
    await choose("A row with a menu.", "Rename")
    await page.locator("dialog.ask input").fill("A better name")
    await page.keyboard.press("Enter")
    await row(second.page, "A better name").waitFor()
    await choose("A better name", "Mark as unseen")
    await second.page.locator(".row.is-unseen", { hasText: "A better name" }).waitFor()
    await choose("A better name", "End the session")
    await page.getByText('End the session of "A better name"?').waitFor()
    await page.getByRole("button", { name: "Cancel" }).click()
    await page.locator("dialog.ask").waitFor({ state: "detached" })
    await second.context.close()
  })

  test("after a cut, another version of the page is offered and never loaded by itself; swipes close drawer and panel", async () => {
    const { stage } = ground()
    const { page, context } = await stage.open({
      viewport: { width: 390, height: 844 },
      hasTouch: true,
      isMobile: true,
    })
    const sockets: WebSocketRoute[] = []
    await page.routeWebSocket(/\/hub\/sessions\//, (socket) => {
      sockets.push(socket)
      socket.connectToServer()
    })
    await page.reload()
    await page.locator("#prompt").waitFor()
    await page.getByRole("button", { name: "Show the conversations" }).click()
    await page.getByRole("navigation", { name: "Conversations" }).waitFor()
    await swipe(page, 250, 60)
    await page.getByRole("navigation", { name: "Conversations" }).waitFor({ state: "detached" })
    await page.goto(`${stage.origin}/c/local/web:default`)
    await page.getByRole("button", { name: "Show the panel" }).click()
    await page.locator("#panel").waitFor()
    await swipe(page, 60, 300)
    await page.locator("#panel").waitFor({ state: "detached" })
    expect(await page.getByText("Updated. Reload").count()).toBe(0)
    const current = await page.evaluate<number>("performance.timeOrigin")
    await page.route(`${stage.origin}/`, (route) =>
      route.fulfill({
        contentType: "text/html",
        body: '<script type="module" src="/assets/main-newer.js"></script>',
      }),
    )
    for (const socket of sockets) await socket.close({ code: 1011, reason: "cut by the test" })
    await page.getByRole("button", { name: "Updated. Reload" }).waitFor()
    expect(await page.evaluate<number>("performance.timeOrigin")).toBe(current)
    await context.close()
  })
}
