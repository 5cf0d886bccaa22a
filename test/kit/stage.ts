/** For test files whose tests start their own runners: one model for the file, and cleanup after each test. */
import { afterAll, afterEach, beforeAll } from "bun:test"
import { type ScriptedModel, startScriptedModel } from "./model.ts"

interface Stoppable {
  readonly stop: () => Promise<unknown>
}

export interface Stage {
  readonly model: () => ScriptedModel
  /** Registers something to stop after this test; the last registered is stopped first. */
  readonly put: <Thing extends Stoppable>(thing: Thing) => Thing
}

export const useStage = (): Stage => {
  let model: ScriptedModel | undefined
  let toStop: Stoppable[] = []
  beforeAll(async () => {
    model = await startScriptedModel()
  })
  afterEach(async () => {
    for (const thing of toStop.toReversed()) await thing.stop()
    toStop = []
  })
  afterAll(() => model?.stop())
  return {
    model: () => {
      if (!model) throw new Error("the model starts in beforeAll: call model() inside a test")
      return model
    },
    put: (thing) => {
      toStop.push(thing)
      return thing
    },
  }
}
