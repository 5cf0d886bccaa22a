/** An OpenCode that cannot live: it is given up, said so, and tried again when a configuration comes. */
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
let cure: string

beforeAll(async () => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({ config: scriptedConfig(model) })
  const sandbox = await createSandbox(agent)
  cure = join(sandbox.root, "cure")
  const sick = join(sandbox.root, "opencode")
  const real = sandbox.environment["OPENCODE_BIN"]
  const script = `[ -e ${cure} ] || { echo "no cure for $PPID"; exit 3; }\nexec ${real} "$@"`
  await Bun.write(sick, `#!/bin/sh\n${script}\n`)
  await chmod(sick, 0o755)
  runner = await startRunner(agent, { OPENCODE_BIN: sick }, { in: sandbox })
})

afterAll(async () => {
  await runner.stop()
  await agent.stop()
  await model.stop()
})

const answers = () => agent.frames.filter((frame) => frame.type === "opencode-config-applied")

test("five failures within two minutes are fatal, with the last words", async () => {
  const { detail } = await agent.frame("agentStatus", ({ status }) => status === "error")
  expect(detail).toContain("failed 5 times within two minutes")
  expect(detail).toContain("exited with code 3")
  expect(detail).toContain("no cure for")
  const tries = runner.log.filter((line) => line.includes('"agent.refused"'))
  expect(tries).toHaveLength(5)
  expect(answers()).toHaveLength(1)
  expect(answers()[0]).toMatchObject({ success: false })
})

test("whoever may ask the gateway reads how it is and what it said", async () => {
  const token = makeToken({
    secret: "a secret of the tests only",
    claims: { sid: "test-session" },
  })
  const response = await fetch(`${runner.gatewayUrl}/health?verbose`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const report: unknown = await response.json()
  expect(report).toMatchObject({ agent: { phase: "fatal" }, parts: { agent: { state: "failed" } } })
  expect(JSON.stringify(report)).toContain("no cure for")
})

test("a configuration is what it waits for", async () => {
  await Bun.write(cure, "")
  agent.say({ type: "opencode-config", config: scriptedConfig(model) })
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  await agent.until(() => answers().length === 2, "an answer")
  expect(answers()[1]).toMatchObject({ success: true })
})
