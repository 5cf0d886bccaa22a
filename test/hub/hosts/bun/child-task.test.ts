/** What a child session is given besides its task: a persona, and where the task comes from. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { join } from "node:path"
import { hashOf } from "../../../../src/hub/keys.ts"
import { untilTrue } from "../../../kit/until-true.ts"
import { type FakeRunner, startFakeRunner } from "../../kit/fake-runner.ts"
import { CLIENT_TOKEN } from "../../kit/hub.ts"
import { startTestLocalHub, type TestLocalHub } from "../../kit/local-hub.ts"
import { refusalOf } from "../../kit/owners.ts"

let setup: TestLocalHub
const runners: FakeRunner[] = []
beforeEach(async () => {
  // Stands for the runner's program: this test connects the runners of the children itself.
  setup = await startTestLocalHub({
    self: [process.execPath, "-e", "setTimeout(() => {}, 600_000)"],
  })
})
afterEach(async () => {
  await Promise.all(runners.splice(0).map((one) => one.stop()))
  await setup.stop()
})

const store = async (slug: string, content: string) => {
  const response = await fetch(`${setup.hub.url}/personas/${slug}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
    body: JSON.stringify({ content }),
  })
  expect(response.status).toBe(201)
}
const runnerOf = async (session: string): Promise<FakeRunner> => {
  const token = `runner-token-of-${session}`
  setup.hub.find(session)?.setRunnerToken(await hashOf(token))
  const stateDir = join(setup.folder, `runner-${session}`)
  const made = startFakeRunner({ url: setup.hub.runnerUrl(session), token, stateDir })
  runners.push(made)
  return made
}
/** The instructions that the hub sends to the runner of a session. */
const instructionsOf = async ({ frames }: FakeRunner): Promise<readonly string[]> => {
  const config = () => frames.find(({ type }) => type === "opencode-config")
  await untilTrue(() => config() !== undefined, "config of the child")
  const frame = config()
  return frame?.type === "opencode-config" ? (frame.config.instructions ?? []) : []
}
const spawn = async ({ uplink }: FakeRunner, fields: object = {}) =>
  (await uplink.request("spawn-child", { task: "look", workspace: "w", ...fields })).childSessionId

test("a child session has the text of its persona in its instructions, and its own child has another or none", async () => {
  await store("reviewer", "# Reviews\nBe strict.")
  await store("writer", "# Writes\nBe brief.")
  setup.hub.find("s1")?.configure({ instructions: ["Of the operator."] })
  const child = await runnerOf(await spawn(setup.runner, { persona: "reviewer" }))
  expect(await instructionsOf(child)).toEqual([
    "Of the operator.",
    "# Persona: reviewer\n\n# Reviews\nBe strict.",
  ])
  const other = await runnerOf(await spawn(child, { persona: "writer" }))
  expect(await instructionsOf(other)).toEqual([
    "Of the operator.",
    "# Persona: writer\n\n# Writes\nBe brief.",
  ])
  const plain = await runnerOf(await spawn(child))
  expect(await instructionsOf(plain)).toEqual(["Of the operator."])
})

test("a persona that does not exist is refused with the names of those that do", async () => {
  await store("reviewer", "# Reviews")
  expect(await refusalOf(spawn(setup.runner, { persona: "critic" }))).toContain(
    "persona: critic does not exist: there are reviewer",
  )
  expect(setup.hub.find("s1")?.children()).toEqual([])
})

test("a child session reads in its task which pull request or issue the task comes from", async () => {
  const repository = { sourceRepoFullName: "birds/heron" }
  const child = await runnerOf(
    await spawn(setup.runner, { ...repository, sourceType: "pull request", sourcePrNumber: 3 }),
  )
  await untilTrue(() => child.prompts.length > 0, "task of the child")
  expect(child.prompts[0]?.content).toBe(
    "look\n\nThe task comes from: pull request #3 of birds/heron.",
  )
  const second = await runnerOf(await spawn(setup.runner, { sourceType: "branch", ...repository }))
  await untilTrue(() => second.prompts.length > 0, "task of the second child")
  expect(second.prompts[0]?.content).toBe("look\n\nThe task comes from: branch of birds/heron.")
})
