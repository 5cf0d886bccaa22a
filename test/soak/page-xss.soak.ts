/** Hostile text in every field that the agent can fill. `npm test` has the vectors of an answer only. */
import { afterAll, beforeAll } from "bun:test"
import type { Ground } from "../e2e/page/ground.ts"
import { testXss, VECTOR } from "../e2e/page/xss.ts"
import { makeRepository } from "../kit/conversation.ts"
import { startScriptedModel } from "../kit/model.ts"
import { startPage } from "../kit/page.ts"

let shared: Ground | undefined
beforeAll(async () => {
  const model = await startScriptedModel({ title: VECTOR, moreModels: [VECTOR] })
  const stage = await startPage(
    { SANDPIPER_PERMISSIONS: "relay", SANDPIPER_TOOLS: "core" },
    { model, furnish: makeRepository },
  )
  const { page, problems } = await stage.open()
  shared = { stage, model, page, problems }
}, 90_000)
afterAll(async () => {
  await shared?.stage.stop()
  await shared?.model.stop()
})

testXss(() => {
  if (!shared) throw new Error("the stage starts in beforeAll")
  return shared
})
