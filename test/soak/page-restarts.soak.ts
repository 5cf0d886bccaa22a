/** The page of `up` through 20 cut connections, a reload and an absence: it shows what the hub has stored, once, and nothing jumps. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Page } from "playwright-core"
import type { Snapshot } from "../../src/wire/clients/conversation.ts"
import { reply, type ScriptedModel, startScriptedModel, text, waitFor } from "../kit/model.ts"
import {
  firstTurn,
  openPage,
  type PageStage,
  sendPrompt,
  startPage,
  turnIsOver,
  until,
} from "../kit/page.ts"
import { startTcpProxy, type TcpProxy } from "../kit/tcp-proxy.ts"

const CUTS = 20
let model: ScriptedModel
let stage: PageStage
let wire: TcpProxy
let page: Page

beforeAll(async () => {
  model = await startScriptedModel()
  stage = await startPage({}, { model })
  wire = await startTcpProxy(Number(new URL(stage.origin).port))
  // The browser reaches the page through the proxy. Names below localhost have the port that the browser uses.
  const link = stage.link().replace(/:\d+/, `:${wire.port}`)
  page = (await openPage(stage.browser, link)).page
}, 120_000)
afterAll(async () => {
  await wire.stop()
  await stage.stop()
  await model.stop()
})

/** Words of a piece of the answer; its last word is a mark that is nowhere else. */
const pieceOf = (name: string, index: number): string =>
  `${Array.from({ length: 40 }, (_, word) => `${name}${index}w${word}`).join(" ")} mark-${name}-${index}\n\n`

/** An answer that waits at the end of each piece until the test lets it go on. */
const scriptAnswer = (name: string, pieces: number) => {
  const gates = Array.from({ length: pieces }, () => Promise.withResolvers<void>())
  const texts = gates.map((_, index) => pieceOf(name, index))
  model.on(name, [
    reply(
      ...texts.flatMap((piece, index) => [
        text(piece, { chunks: 20 }),
        waitFor(gates[index]?.promise ?? Promise.resolve()),
      ]),
    ),
  ])
  return {
    texts,
    open: (index: number) => gates[index]?.resolve(),
    shown: (index: number) => `document.body.innerText.includes("mark-${name}-${index}")`,
  }
}

const words = (given: string): readonly string[] => given.split(/\s+/).filter((word) => word !== "")

const repliesOnScreen = async (): Promise<readonly (readonly string[])[]> => {
  const shown = await page.evaluate<readonly string[]>(
    `[...document.querySelectorAll(".reply")].map((one) =>
      [...one.querySelectorAll("p")].map((block) => block.textContent).join(" "))`,
  )
  return shown.map(words)
}

const snapshot = async (): Promise<Snapshot> => {
  const places = join(stage.sandbox.environment["HOME"] ?? "", ".local/state/sandpiper/places")
  const [file] = [...new Bun.Glob("*/hub/address.json").scanSync(places)]
  const address = readFileSync(join(places, file ?? ""), "utf8")
  const { url, token } = JSON.parse(address) as { url: string; token: string }
  const response = await fetch(`${url}/sessions/local`, {
    headers: { Authorization: `Bearer ${token}` },
  })
  return (await response.json()) as Snapshot
}

const storedReplies = async (): Promise<readonly (readonly string[])[]> => {
  const { messages } = await snapshot()
  return messages
    .filter(({ role }) => role === "assistant")
    .map(({ parts }) => words(parts.map(({ text: part = "" }) => part).join("")))
}

test("a page whose connection is cut 20 times during an answer shows every word once, and the turn that is read stays where it is", async () => {
  model.on("before", [text(Array.from({ length: 60 }, (_, line) => `line ${line}`).join("\n\n"))])
  await sendPrompt(page, "@@before@@")
  await turnIsOver(page, "@@before@@")
  const answer = scriptAnswer("cut", CUTS + 1)
  await sendPrompt(page, "@@cut@@")
  await until(page, answer.shown(0))
  await page.locator("#log").hover()
  await page.mouse.wheel(0, -700)
  await page.getByRole("button", { name: "Newest" }).waitFor()
  const [turn, top] = await firstTurn(page)
  for (let index = 0; index < CUTS; index += 1) {
    wire.reset()
    answer.open(index)
    await until(page, answer.shown(index + 1))
    const [nowTurn, nowTop] = await firstTurn(page)
    expect(nowTurn).toBe(turn)
    expect(Math.abs(nowTop - top)).toBeLessThanOrEqual(1)
  }
  answer.open(CUTS)
  await page.getByRole("button", { name: "Newest" }).click()
  await turnIsOver(page, "@@cut@@")
  expect((await repliesOnScreen()).at(-1)).toEqual(words(answer.texts.join("")))
  expect((await storedReplies()).at(-1)).toEqual(words(answer.texts.join("")))
}, 240_000)

test("a reload shows the words that the hub has stored, once", async () => {
  const stored = await storedReplies()
  await page.reload()
  await turnIsOver(page, "@@cut@@")
  const shown = await repliesOnScreen()
  // Turns far from the view are not in the document.
  expect(shown.length).toBeGreaterThan(0)
  expect(shown).toEqual(stored.slice(-shown.length))
})

test("a prompt that is sent while the hub is away runs once when it is back", async () => {
  model.on("offline", [text("the answer after the absence")])
  wire.setDown(true)
  wire.reset()
  await sendPrompt(page, "@@offline@@")
  await page.locator(".is-pending").waitFor()
  wire.setDown(false)
  await turnIsOver(page, "@@offline@@")
  const { messages } = await snapshot()
  const prompts = messages.filter(
    ({ role, parts }) => role === "user" && parts[0]?.text === "@@offline@@",
  )
  expect(prompts).toHaveLength(1)
  expect((await storedReplies()).at(-1)).toEqual(words("the answer after the absence"))
}, 120_000)
