/** A chain of child sessions ends at the depth limit. */
import { afterEach, expect, test } from "bun:test"
import { join } from "node:path"
import { hashOf } from "../../../../src/hub/keys.ts"
import { type FakeRunner, startFakeRunner } from "../../kit/fake-runner.ts"
import { startTestLocalHub, type TestLocalHub } from "../../kit/local-hub.ts"
import { refusalOf } from "../../kit/owners.ts"

let setup: TestLocalHub
const runners: FakeRunner[] = []
afterEach(async () => {
  await Promise.all(runners.splice(0).map((one) => one.stop()))
  await setup.stop()
})

test("a child session may start children until the depth limit, and the last one is told to do the work itself", async () => {
  // Stands for the runner's program: this test connects the runners of the children itself.
  const self = [process.execPath, "-e", "setTimeout(() => {}, 600_000)"]
  setup = await startTestLocalHub({ self, maxChildDepth: 3 })
  const runnerOf = async (session: string): Promise<FakeRunner> => {
    const token = `runner-token-of-${session}`
    setup.hub.find(session)?.setRunnerToken(await hashOf(token))
    const stateDir = join(setup.folder, `runner-${session}`)
    const made = startFakeRunner({ url: setup.hub.runnerUrl(session), token, stateDir })
    runners.push(made)
    return made
  }
  const spawn = async ({ uplink }: FakeRunner) =>
    (await uplink.request("spawn-child", { task: "go deeper", workspace: "w" })).childSessionId
  const chain: string[] = []
  let deepest = setup.runner
  for (let depth = 1; depth <= 3; depth += 1) {
    const child = await spawn(deepest)
    chain.push(child)
    deepest = await runnerOf(child)
  }
  expect(new Set(chain).size).toBe(3)
  expect(await refusalOf(spawn(deepest))).toContain("3 levels below the first one")
  // A sibling of the deepest one is within the limit.
  expect(await spawn(runners[1] ?? deepest)).toStartWith("child-")
})
