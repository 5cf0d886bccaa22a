/** A person's ways through the page: the compiled binary, the real OpenCode, a scripted model, one Chromium for all groups. */
import { afterAll, beforeAll } from "bun:test"
import { startScriptedModel } from "../kit/model.ts"
import { startPage } from "../kit/page.ts"
import { furnishSpeech, testAttachedFiles } from "./page/attached-files.ts"
import { testFeatures } from "./page/features.ts"
import { testFilesAndLinks } from "./page/files-and-links.ts"
import type { Ground } from "./page/ground.ts"
import { testHostilePage } from "./page/hostile-page.ts"
import { testKeyboardAndSizes } from "./page/keyboard-and-sizes.ts"
import { testStopAndQueue } from "./page/stop-and-queue.ts"

let shared: Ground | undefined
const ground = (): Ground => {
  if (!shared) throw new Error("the stage starts in beforeAll")
  return shared
}

beforeAll(async () => {
  const model = await startScriptedModel()
  const stage = await startPage(
    { SANDPIPER_PERMISSIONS: "relay", SANDPIPER_TOOLS: "core" },
    { model, furnish: furnishSpeech },
  )
  const { page, problems } = await stage.open()
  shared = { stage, model, page, problems }
}, 90_000)
afterAll(async () => {
  await shared?.stage.stop()
  await shared?.model.stop()
})

testStopAndQueue(ground)
testFilesAndLinks(ground)
testAttachedFiles(ground)
testFeatures(ground)
testKeyboardAndSizes(ground)
testHostilePage(ground)
