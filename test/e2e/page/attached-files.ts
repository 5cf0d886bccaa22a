/** A PDF, a voice file and a recording of the microphone, from the page to the model. */
import { expect, test } from "bun:test"
import { mkdir, writeFile } from "node:fs/promises"
import { delimiter, join } from "node:path"
import { launchBrowser } from "../../kit/browser.ts"
import { makeRepository } from "../../kit/conversation.ts"
import { text } from "../../kit/model.ts"
import { openConversation, openPage, sendPrompt, turnIsOver, until } from "../../kit/page.ts"
import type { Sandbox } from "../../kit/runner.ts"
import type { Ground } from "./ground.ts"

/** Passes the sound on: the speech recognition below reads the file as it was sent. */
const FFMPEG = `#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = "-i" ] && source="$2"; shift; done
{ cat "$source"; head -c 4000 /dev/zero; } > "$1"
`
/** Says what kind of file it got: WebM starts with the bytes 1A 45 DF A3. */
const WHISPER = `#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --file) wave="$2" ;; --output-file) output="$2" ;; esac
  shift
done
case "$(head -c 4 "$wave" | od -An -tx1 | tr -d ' ')" in
  1a45dfa3) echo "a recording in WebM" > "$output.txt" ;;
  *) head -c 13 "$wave" > "$output.txt" ;;
esac
`

/** A repository, and programs for speech: these tests check what arrives, not the recognition. */
export const furnishSpeech = async (sandbox: Sandbox): Promise<void> => {
  await makeRepository(sandbox)
  const folder = join(sandbox.root, "speech")
  await mkdir(folder)
  await Bun.write(join(folder, "ggml-base.en.bin"), "a model")
  for (const [name, script] of [
    ["ffmpeg", FFMPEG],
    ["whisper-cli", WHISPER],
  ] as const)
    await writeFile(join(folder, name), script, { mode: 0o755 })
  const path = [folder, sandbox.environment["PATH"]].join(delimiter)
  Object.assign(sandbox.environment, { PATH: path, WHISPER_MODELS: folder })
}

export const testAttachedFiles = (ground: () => Ground): void => {
  test("the text of a PDF and the words of a voice file reach the model, and the page shows what was heard", async () => {
    const { stage, model, page } = ground()
    model.on("papers", [text("Read and heard.")])
    await openConversation(page, stage, "papers")
    const paper = Bun.file(join(import.meta.dir, "../../fixtures/files/two-pages.pdf"))
    await page.locator("input[type=file]").setInputFiles([
      { name: "two.pdf", mimeType: "application/pdf", buffer: Buffer.from(await paper.bytes()) },
      { name: "v.ogg", mimeType: "audio/ogg", buffer: Buffer.from("fix the build") },
    ])
    await page.getByRole("button", { name: "Remove v.ogg" }).waitFor()
    await sendPrompt(page, "@@papers@@")
    await turnIsOver(page, "@@papers@@")
    const received = JSON.stringify(model.requests.at(-1)?.messages)
    expect(received).toContain("plover")
    expect(received).toContain("says: fix the build")
    await page.locator(".bubble .chip", { hasText: "two.pdf" }).waitFor()
    await page.locator(".bubble-heard", { hasText: "Heard: fix the build" }).waitFor()
  })

  test("a recording of the microphone is kept over a reload, sent with the prompt and heard by the agent", async () => {
    const { stage, model } = ground()
    model.on("voice", [text("Heard.")])
    const { page, context, problems } = await stage.open({ permissions: ["microphone"] })
    await openConversation(page, stage, "voice")
    await page.getByRole("button", { name: "Record a voice message" }).click()
    // The microphone of this browser beeps: the level moves.
    await until(
      page,
      `parseFloat(document.querySelector(".recording-level > span")?.style.scale ?? "0") > 0.05`,
    )
    await page.getByRole("button", { name: "Stop and attach" }).click()
    await page.locator(".attachment", { hasText: "Recording" }).waitFor()
    await page.reload()
    await page.locator(".attachment", { hasText: /Recording\s*0:\d\d/ }).waitFor()
    await sendPrompt(page, "@@voice@@")
    await turnIsOver(page, "@@voice@@")
    const received = JSON.stringify(model.requests.at(-1)?.messages)
    expect(received).toContain("says: a recording in WebM")
    expect(problems).toEqual([])
    // A recording that is discarded leaves nothing.
    await page.getByRole("button", { name: "Record a voice message" }).click()
    await page.getByRole("button", { name: "Discard the recording" }).click()
    await page.getByRole("button", { name: "Record a voice message" }).waitFor()
    expect(await page.locator(".attachment").count()).toBe(0)
    await context.close()
  })

  test("without a microphone the page says so and takes the prompt as before", async () => {
    const { stage } = ground()
    const browser = await launchBrowser({ microphone: false })
    const { page } = await openPage(browser, stage.link(), { permissions: [] })
    await openConversation(page, stage, "no-voice")
    await page.getByRole("button", { name: "Record a voice message" }).click()
    await page.getByText("The browser does not allow to record.").waitFor()
    await browser.close()
  })
}
