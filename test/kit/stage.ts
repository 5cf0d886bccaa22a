/** For a file whose every test has runners of its own: one model for all of them, and an end to what a test has started. */
import { afterAll, afterEach, beforeAll } from "bun:test"
import { type ScriptedModel, startScriptedModel } from "./model.ts"

interface Stoppable {
  readonly stop: () => Promise<unknown>
}

export interface Stage {
  readonly model: () => ScriptedModel
  /** It is stopped after this test, what was put last first. */
  readonly put: <Thing extends Stoppable>(thing: Thing) => Thing
}

export const useStage = (): Stage => {
  let model: ScriptedModel | undefined
  let onIt: Stoppable[] = []
  beforeAll(async () => {
    model = await startScriptedModel()
  })
  afterEach(async () => {
    for (const thing of onIt.toReversed()) await thing.stop()
    onIt = []
  })
  afterAll(() => model?.stop())
  return {
    model: () => {
      if (!model) throw new Error("the model is there once the tests run")
      return model
    },
    put: (thing) => {
      onIt.push(thing)
      return thing
    },
  }
}
