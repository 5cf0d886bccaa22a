/** An OpenCode that always exits: it is given up, reported, and started again by a new configuration. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod } from "node:fs/promises"
import { join } from "node:path"
import { makeToken } from "../runner/gateway/kit.ts"
import { type ScriptedModel, startScriptedModel } from "../kit/model.ts"
import { createSandbox, scriptedConfig, startRunner, type TestRunner } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

let model: ScriptedModel
let agent: TestSessionAgent
let runner: TestRunner
let repairedMarker: string

beforeAll(async () => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({ config: scriptedConfig(model) })
  const sandbox = await createSandbox(agent)
  repairedMarker = join(sandbox.root, "repaired")
  const broken = join(sandbox.root, "opencode")
  const real = sandbox.environment["OPENCODE_BIN"]
  const script = `[ -e ${repairedMarker} ] || { echo "not repaired, parent $PPID"; exit 3; }\nexec ${real} "$@"`
  await Bun.write(broken, `#!/bin/sh\n${script}\n`)
  await chmod(broken, 0o755)
  runner = await startRunner(agent, { OPENCODE_BIN: broken }, { in: sandbox })
})

afterAll(async () => {
  await runner.stop()
  await agent.stop()
  await model.stop()
})

const replies = () => agent.frames.filter((frame) => frame.type === "opencode-config-applied")

test("five failures within two minutes are fatal and reported with the last log lines", async () => {
  const { detail } = await agent.frame("agentStatus", ({ status }) => status === "error")
  expect(detail).toContain("failed 5 times within two minutes")
  expect(detail).toContain("exited with code 3")
  expect(detail).toContain("not repaired, parent")
  const tries = runner.log.filter((line) => line.includes('"agent.config-refused"'))
  expect(tries).toHaveLength(5)
  expect(replies()).toHaveLength(1)
  expect(replies()[0]).toMatchObject({ success: false })
})

test("the verbose health report has the fatal phase and OpenCode's log lines", async () => {
  const token = makeToken({
    secret: "a secret of the tests only",
    claims: { sid: "test-session" },
  })
  const response = await fetch(`${runner.gatewayUrl}/health?verbose`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const report: unknown = await response.json()
  expect(report).toMatchObject({ agent: { phase: "fatal" }, parts: { agent: { state: "failed" } } })
  expect(JSON.stringify(report)).toContain("not repaired, parent")
})

test("a new configuration starts OpenCode again after a fatal failure", async () => {
  await Bun.write(repairedMarker, "")
  agent.say({ type: "opencode-config", config: scriptedConfig(model) })
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  await agent.until(() => replies().length === 2, "a second reply")
  expect(replies()[1]).toMatchObject({ success: true })
})
