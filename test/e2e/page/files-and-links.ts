/** Files of a prompt, prompts without a connection, and a second browser. */
import { expect, test } from "bun:test"
import type { Page, WebSocketRoute } from "playwright-core"
import { text, tool } from "../../kit/model.ts"
import { openConversation, sendPrompt, turnIsOver, until } from "../../kit/page.ts"
import { eventually, type Ground } from "./ground.ts"

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

/** Files that the person drops on the page or pastes, as the browser reports them. */
const give = (
  page: Page,
  event: "drop" | "paste",
  name: string,
  type: string,
  /** In base64, or as many zeros. */
  content: string | number,
) =>
  page.evaluate(`(() => {
    const [name, type, content] = ${JSON.stringify([name, type, content])}
    const transfer = new DataTransfer()
    const bytes = typeof content === "number"
      ? new Uint8Array(content)
      : Uint8Array.from(atob(content), (one) => one.charCodeAt(0))
    transfer.items.add(new File([bytes], name, { type }))
    const options = { bubbles: true, cancelable: true, dataTransfer: transfer, clipboardData: transfer }
    const event = ${event === "drop" ? "new DragEvent('drop', options)" : "new ClipboardEvent('paste', options)"}
    document.querySelector("#prompt").dispatchEvent(event)
  })()`)

const question = () =>
  tool("question", {
    questions: [
      {
        question: "Which way?",
        header: "Way",
        options: [
          { label: "Left", description: "along the river" },
          { label: "Right", description: "up the hill" },
        ],
      },
    ],
  })

export const testFilesAndLinks = (ground: () => Ground): void => {
  test("files are attached by the button, by a drop and by a paste; too many bytes are refused before sending", async () => {
    const { stage, model, page } = ground()
    model.on("attach", [text("Read.")])
    await openConversation(page, stage, "attach")
    await page.locator("input[type=file]").setInputFiles({
      name: "note.txt",
      mimeType: "text/plain",
      buffer: Buffer.from("a word from the note"),
    })
    await give(page, "drop", "dropped.txt", "text/plain", btoa("a word from the drop"))
    await give(page, "paste", "pasted.png", "image/png", PIXEL)
    // The page reads the files independently of each other: they can appear in any order.
    for (const name of ["note.txt", "dropped.txt", "pasted.png"])
      await page.getByRole("button", { name: `Remove ${name}` }).waitFor()
    const names = page.locator(".attachment-remove")
    expect(await names.count()).toBe(3)
    await give(page, "drop", "large.bin", "application/octet-stream", 20_000_001)
    await page.getByText("At most 20 files and 20 MB can be sent with one prompt.").waitFor()
    expect(await names.count()).toBe(3)
    await sendPrompt(page, "@@attach@@")
    await turnIsOver(page, "@@attach@@")
    const received = JSON.stringify(model.requests.at(-1)?.messages)
    for (const part of ["a word from the note", "a word from the drop", "pasted.png"])
      expect(received).toContain(part)
    await page.locator(".bubble .chip", { hasText: "note.txt" }).waitFor()
    expect(await names.count()).toBe(0)
  })

  test("a prompt that is sent without a connection survives a reload and arrives exactly once", async () => {
    const { stage, model } = ground()
    model.on("offline", [text("Arrived.")])
    const { page, context } = await stage.open()
    await openConversation(page, stage, "offline")
    const isCut = { now: true }
    const open = new Set<WebSocketRoute>()
    await page.routeWebSocket(/\/hub\/sessions\//, (socket) => {
      if (isCut.now) return void socket.close({ code: 1011, reason: "cut by the test" })
      open.add(socket)
      socket.connectToServer()
    })
    // The page is loaded, and its connections to the session are cut.
    await page.reload()
    await page.getByText("No connection").waitFor()
    await page.locator("input[type=file]").setInputFiles({
      name: "kept.txt",
      mimeType: "text/plain",
      buffer: Buffer.from("kept in the outbox"),
    })
    await page.getByText("kept.txt").waitFor()
    await sendPrompt(page, "@@offline@@")
    await page.locator(".prompt.is-pending", { hasText: "@@offline@@" }).waitFor()
    await eventually("the outbox is stored", () =>
      page.evaluate<boolean>(`new Promise((resolve) => {
        const opening = indexedDB.open("sandpiper")
        opening.onsuccess = () => {
          const names = opening.result.transaction("files").objectStore("files").getAllKeys()
          names.onsuccess = () => resolve(names.result.some((name) => String(name).startsWith("outbox:")))
        }
      })`),
    )
    await page.reload()
    await page.locator(".prompt.is-pending", { hasText: "@@offline@@" }).waitFor()
    await page.locator(".is-pending .chip", { hasText: "kept.txt" }).waitFor()
    // The page dials again by itself.
    isCut.now = false
    await turnIsOver(page, "@@offline@@")
    // Another connection would send again what has no reply.
    for (const socket of open) await socket.close({ code: 1011, reason: "cut by the test" })
    await page.reload()
    await turnIsOver(page, "@@offline@@")
    expect(await page.locator(".prompt").count()).toBe(1)
    const calls = model.requests.filter(({ messages }) =>
      JSON.stringify(messages).includes("@@offline@@"),
    )
    expect(calls.length).toBe(1)
    expect(JSON.stringify(calls)).toContain("kept in the outbox")
    await context.close()
  })

  test("a question is answered from a second browser; the first one, which has not heard of it, is told that it is too late", async () => {
    const { stage, model } = ground()
    model.on("two", [question(), text("Thanks.")])
    const first = await stage.open()
    const isDeaf = { now: false }
    await first.page.routeWebSocket(/\/hub\/sessions\//, (socket) => {
      const server = socket.connectToServer()
      socket.onMessage((message) => server.send(message))
      server.onMessage((message) => {
        const isReply = String(message).includes('"type":"reply"')
        if (!isDeaf.now || isReply) socket.send(message)
      })
    })
    await openConversation(first.page, stage, "two-browsers")
    await sendPrompt(first.page, "@@two@@")
    await first.page.locator("[data-option='1']").waitFor()
    isDeaf.now = true
    const second = await stage.open()
    // In another conversation the question is shown too, but what is typed there is a prompt.
    await openConversation(second.page, stage, "not-asked")
    await second.page.getByText("It is asked in another conversation").waitFor()
    await sendPrompt(second.page, "a prompt, not an answer")
    await second.page.locator(".bubble-text", { hasText: "a prompt, not an answer" }).waitFor()
    await second.page.goto(`${stage.origin}/c/local/web:two-browsers`)
    await second.page.locator("[data-option='2']").click()
    await turnIsOver(second.page, "@@two@@")
    expect(await second.page.locator(".asked").innerText()).toContain("You: Right")
    await first.page.locator("[data-option='1']").click()
    await first.page.getByText("The agent does not wait for this any more.").waitFor()
    isDeaf.now = false
    await first.page.reload()
    await turnIsOver(first.page, "@@two@@")
    expect(await first.page.locator(".asked").innerText()).toContain("You: Right")
    await first.context.close()
    await second.context.close()
  })

  test("two browsers on one conversation show the same words while they stream", async () => {
    const { stage, model, page } = ground()
    model.on("both", [text("The same words in both places.", { chunks: 6 })])
    await openConversation(page, stage, "both")
    const second = await stage.open()
    await openConversation(second.page, stage, "both")
    await sendPrompt(second.page, "@@both@@")
    await turnIsOver(page, "@@both@@")
    await turnIsOver(second.page, "@@both@@")
    await until(page, `document.querySelector(".reply").innerText.includes("The same words")`)
    expect(await page.locator(".prose").innerText()).toBe("The same words in both places.")
    expect(await second.page.locator(".prose").innerText()).toBe("The same words in both places.")
    await second.context.close()
  })
}
