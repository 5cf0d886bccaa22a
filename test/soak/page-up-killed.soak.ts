/**
 * The page while the whole `up` is killed and started again in the middle of an answer of a model behind an endpoint.
 * OpenCode keeps the words of a part that were said meanwhile and gives them with its end: they appear then, once.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Page } from "playwright-core"
import { gate } from "../e2e/page/ground.ts"
import { reply, type ScriptedModel, startScriptedModel, text, tool, waitFor } from "../kit/model.ts"
import { firstTurn, type PageStage, sendPrompt, startPage, turnIsOver, until } from "../kit/page.ts"

const KILLS = 3
let model: ScriptedModel
let stage: PageStage
let page: Page

beforeAll(async () => {
  model = await startScriptedModel()
  stage = await startPage({}, { model })
  page = (await stage.open()).page
}, 120_000)
afterAll(async () => {
  await stage.stop()
  await model.stop()
})

const pieceOf = (name: string): string =>
  `${Array.from({ length: 60 }, (_, word) => `${name}-${word}`).join(" ")} mark-${name}\n\n`
const shown = (name: string) => `document.body.innerText.includes("mark-${name}")`
const words = (given: string): readonly string[] => given.split(/\s+/).filter((word) => word !== "")

test("an answer goes on after `up` is killed and started again, every word is shown once, and the turn that is read stays where it is", async () => {
  model.on("before", [text(Array.from({ length: 60 }, (_, line) => `line ${line}`).join("\n\n"))])
  await sendPrompt(page, "@@before@@")
  await turnIsOver(page, "@@before@@")
  // Each call of the model is a part of its own: the first words, a kill, and the rest of the part.
  const steps = Array.from({ length: KILLS }, (_, index) => ({ index, held: gate() }))
  const texts = steps.flatMap(({ index }) => [pieceOf(`a${index}`), pieceOf(`b${index}`)])
  model.on(
    "killed",
    steps.map(({ index, held }) =>
      reply(
        text(pieceOf(`a${index}`), { chunks: 20 }),
        waitFor(held.opened),
        text(pieceOf(`b${index}`), { chunks: 20 }),
        ...(index < KILLS - 1 ? [tool("todoread", {})] : []),
      ),
    ),
  )
  await sendPrompt(page, "@@killed@@")
  await until(page, shown("a0"))
  await page.locator("#log").hover()
  await page.mouse.wheel(0, -900)
  await page.getByRole("button", { name: "Newest" }).waitFor()
  const [turn, top] = await firstTurn(page)
  for (const { index, held } of steps) {
    // The first words of the next part may be said while no `up` runs: they come with its end.
    await stage.killAndRestart()
    held.open()
    await until(page, shown(`b${index}`), 120_000)
    const [nowTurn, nowTop] = await firstTurn(page)
    expect([nowTurn, Math.abs(nowTop - top) <= 1]).toEqual([turn, true])
  }
  await page.getByRole("button", { name: "Newest" }).click()
  await turnIsOver(page, "@@killed@@")
  const onScreen = await page.evaluate<string>(
    `[...[...document.querySelectorAll(".turn")].at(-1).querySelectorAll(".reply p")].map((one) => one.textContent).join(" ")`,
  )
  expect(words(onScreen)).toEqual(words(texts.join("")))
  expect(
    model.requests.filter(({ messages }) => JSON.stringify(messages).includes("@@killed@@")),
  ).toHaveLength(KILLS)
}, 400_000)
