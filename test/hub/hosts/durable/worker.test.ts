/** The host contract on the real workerd, with an object that sleeps between frames. */
import { expect, onTestFinished, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { testContract } from "../../contract.ts"
import { startFakeRunner } from "../../kit/fake-runner.ts"
import { RUNNER_TOKEN } from "../../kit/hub.ts"
import { bundleWorker, startWorkerd } from "../../kit/workerd.ts"

const script = await bundleWorker()

testContract("the hub in a Durable Object", async () => {
  const workerd = await startWorkerd(script)
  return { ...workerd, disturb: workerd.hibernate }
})

test("a Durable Object refuses child sessions and explains how to create a session instead", async () => {
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
  onTestFinished(async () => {
    await runner.stop()
    await workerd.stop()
    await rm(stateDir, { recursive: true, force: true })
  })
  const refusal = (asked: Promise<unknown>) => asked.then(() => "not refused", String)
  const { request } = runner.uplink
  const spawned = request("spawn-child", { task: "look around", workspace: "w" })
  expect(await refusal(spawned)).toContain("this deployment cannot start sandboxes")
  const ended = request("terminate-child", { childSessionId: "c1" })
  expect(await refusal(ended)).toContain("this deployment cannot start sandboxes")
  expect(await request("list-child-sessions", {})).toMatchObject({ children: [] })
  const elsewhere = { workflowId: "w", repoUrl: "https://github.com/birds/heron" }
  expect(await refusal(request("workflow-run", elsewhere))).toContain("repoUrl, branch, ref")
  const repos = request("list-repos", {})
  expect(await refusal(repos)).toContain("set the worker's secret GITHUB_TOKEN")
})
