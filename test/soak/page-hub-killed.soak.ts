/** The page while its hub is killed and started again in the middle of an answer: every word is shown once. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Browser, Page } from "playwright-core"
import type { Snapshot } from "../../src/wire/clients/conversation.ts"
import { type FakeRunner, startFakeRunner } from "../hub/kit/fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { launchBrowser } from "../kit/browser.ts"
import { freePort } from "../kit/free-port.ts"
import { firstTurn, openPage, sendPrompt, turnIsOver, until, untilStill } from "../kit/page.ts"
import { untilTrue } from "../kit/until-true.ts"

const KILLS = 4
const PIECES = Array.from(
  { length: KILLS + 2 },
  (_, piece) =>
    `${Array.from({ length: 60 }, (_word, word) => `w${piece}-${word}`).join(" ")} mark-${piece}\n\n`,
)
/** A turn before it, long enough to read while the answer comes. */
const BEFORE = [Array.from({ length: 60 }, (_, line) => `line ${line}`).join("\n\n")]
let folder: string
let port: number
let hub: Bun.Subprocess
let runner: FakeRunner
let browser: Browser
let page: Page

/** Resolves with a login link when the hub listens. */
const startHub = async (): Promise<string> => {
  const program = join(import.meta.dir, "../hub/kit/page-hub-program.ts")
  const child = Bun.spawn([process.execPath, program, folder, String(port)], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  })
  hub = child
  const { value } = await child.stdout.getReader().read()
  return new TextDecoder().decode(value).trim()
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "page-killed-"))
  port = freePort()
  const link = await startHub()
  runner = startFakeRunner({
    url: `ws://127.0.0.1:${port}/sessions/s1/ws`,
    token: RUNNER_TOKEN,
    stateDir: join(folder, "runner"),
    answer: ({ content }) => (content === "before" ? BEFORE : PIECES),
  })
  browser = await launchBrowser()
  page = (await openPage(browser, link)).page
}, 120_000)
afterAll(async () => {
  await browser.close()
  await runner.stop()
  hub.kill("SIGKILL")
  await hub.exited
  await rm(folder, { recursive: true, force: true })
})

const words = (text: string): readonly string[] => text.split(/\s+/).filter((word) => word !== "")
const shown = (piece: number) => `document.body.innerText.includes("mark-${piece}")`

const wordsOnScreen = async (): Promise<readonly string[]> =>
  words(
    await page.evaluate<string>(
      `[...[...document.querySelectorAll(".turn")].at(-1).querySelectorAll(".reply p")].map((one) => one.textContent).join(" ")`,
    ),
  )

const storedWords = async (): Promise<readonly string[]> => {
  const response = await fetch(`http://127.0.0.1:${port}/sessions/s1`, {
    headers: { Authorization: `Bearer ${CLIENT_TOKEN}` },
  })
  const { messages } = (await response.json()) as Snapshot
  const reply = messages.findLast(({ role }) => role === "assistant")
  return words(reply?.parts.map(({ text = "" }) => text).join("") ?? "")
}

test("a page whose hub is killed four times during an answer stays logged in and shows every word of the hub once, also after a reload; the turn that is read stays where it is", async () => {
  await sendPrompt(page, "before")
  await untilTrue(() => runner.busy() === 1, "turn of the first prompt")
  runner.work(1)
  await turnIsOver(page, "before")
  await sendPrompt(page, "tell me")
  await untilTrue(() => runner.busy() === 1, "turn of the second prompt")
  runner.work(1)
  await until(page, shown(0))
  await page.locator("#log").hover()
  await page.mouse.wheel(0, -900)
  await page.getByRole("button", { name: "Newest" }).waitFor()
  await untilStill(page)
  const [turn, top] = await firstTurn(page)
  for (let kill = 0; kill < KILLS; kill += 1) {
    hub.kill("SIGKILL")
    await hub.exited
    // These words are made while no hub runs.
    runner.work(1)
    await startHub()
    await until(page, shown(kill + 1))
    expect(await wordsOnScreen()).toEqual(words(PIECES.slice(0, kill + 2).join("")))
    const [nowTurn, nowTop] = await firstTurn(page)
    expect([nowTurn, Math.abs(nowTop - top) <= 1]).toEqual([turn, true])
  }
  runner.work(2)
  await turnIsOver(page, "tell me")
  expect(await storedWords()).toEqual(words(PIECES.join("")))
  expect(await wordsOnScreen()).toEqual(words(PIECES.join("")))
  await page.reload()
  await turnIsOver(page, "tell me")
  expect(await wordsOnScreen()).toEqual(words(PIECES.join("")))
}, 300_000)
