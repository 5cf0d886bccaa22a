/** The contract, held by the Durable Object on the real workerd, which sleeps and forgets between frames. */
import { expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { holdContract } from "../../contract.ts"
import { startFakeRunner } from "../../kit/fake-runner.ts"
import { RUNNER_TOKEN } from "../../kit/hub.ts"
import { bundleWorker, startWorkerd } from "../../kit/workerd.ts"

const script = await bundleWorker()

holdContract("the hub in a Durable Object", async () => {
  const workerd = await startWorkerd(script)
  return { ...workerd, disturb: () => workerd.hibernate() }
})

test("an object has no machine to start a child on, and says so", async () => {
  const workerd = await startWorkerd(script)
  const stateDir = await mkdtemp(join(tmpdir(), "no-children-"))
  await fetch(`${workerd.url}/sessions/s1`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${workerd.clientToken}` },
    body: JSON.stringify({ runnerToken: RUNNER_TOKEN }),
  })
  const runner = startFakeRunner({
    url: `${workerd.url.replace(/^http/, "ws")}/sessions/s1/ws`,
    token: RUNNER_TOKEN,
    stateDir,
  })
  const refusal = (asked: Promise<unknown>) => asked.then(() => "it was not refused", String)
  const { request } = runner.uplink
  const spawned = request("spawn-child", { task: "look around", workspace: "w" })
  expect(await refusal(spawned)).toContain("this deployment cannot start sandboxes")
  const ended = request("terminate-child", { childSessionId: "c1" })
  expect(await refusal(ended)).toContain("this deployment cannot start sandboxes")
  expect(await request("list-child-sessions", {})).toMatchObject({ children: [] })
  const repos = request("list-repos", {})
  expect(await refusal(repos)).toContain("set the worker's secret GITHUB_TOKEN")
  await runner.stop()
  await workerd.stop()
  await rm(stateDir, { recursive: true, force: true })
})
