/** Starts the ground of a file of browser tests before its tests, and ends it after them. */
import { afterAll, beforeAll } from "bun:test"
import { startScriptedModel } from "../../kit/model.ts"
import { startPage } from "../../kit/page.ts"
import type { Ground } from "./ground.ts"

type ModelOptions = Parameters<typeof startScriptedModel>[0]
type PageOptions = NonNullable<Parameters<typeof startPage>[1]>

export const startGround = (options: {
  readonly furnish: NonNullable<PageOptions["furnish"]>
  readonly model?: ModelOptions
}): (() => Ground) => {
  let shared: Ground | undefined
  beforeAll(async () => {
    const model = await startScriptedModel(options.model)
    const stage = await startPage(
      { SANDPIPER_PERMISSIONS: "relay", SANDPIPER_TOOLS: "core" },
      { model, furnish: options.furnish },
    )
    const { page, problems } = await stage.open()
    shared = { stage, model, page, problems }
  })
  afterAll(async () => {
    await shared?.stage.stop()
    await shared?.model.stop()
  })
  return () => {
    if (!shared) throw new Error("the stage starts in beforeAll")
    return shared
  }
}
