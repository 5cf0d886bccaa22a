/** The limit of child sessions on the Bun host with a fleet, as in `serve`. All tests share one hub. */
import { afterAll, beforeAll } from "bun:test"
import { join } from "node:path"
import { hashOf } from "../../../../src/hub/keys.ts"
import { testChildLimits } from "../../child-limits-contract.ts"
import { type FakeRunner, startFakeRunner } from "../../kit/fake-runner.ts"
import { startTestLocalHub, type TestLocalHub } from "../../kit/local-hub.ts"

let setup: TestLocalHub
const runners = new Map<string, FakeRunner>()

beforeAll(async () => {
  // A control plane without sandboxes: this file connects the runners itself.
  setup = await startTestLocalHub({ activity: () => {}, maxChildren: 2 })
})
afterAll(async () => {
  for (const runner of runners.values()) await runner.stop()
  await setup.stop()
})

const runnerOf = async (session: string): Promise<FakeRunner> => {
  const known = runners.get(session)
  if (known) return known
  const token = `runner-token-of-${session}`
  setup.hub.find(session)?.setRunnerToken(await hashOf(token))
  const made = startFakeRunner({
    url: setup.hub.runnerUrl(session),
    token,
    stateDir: join(setup.folder, `runner-${session}`),
    answer: ({ content }) => [`heard: ${content}`],
    eager: ({ content }) => !content.startsWith("wait"),
  })
  runners.set(session, made)
  return made
}

testChildLimits("Bun", () => ({
  parent: (session) => {
    setup.hub.create(session, `user:${session}`)
    return runnerOf(session)
  },
  runnerOf,
}))
