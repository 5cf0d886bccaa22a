/** Services of a former runner: they start again when the agent is ready, and never before it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { signControlToken } from "../../src/lib/control-token.ts"
import { holdOpenCode } from "../kit/held-opencode.ts"
import { type ScriptedModel, startScriptedModel } from "../kit/model.ts"
import { createSandbox, type Sandbox, scriptedConfig, startRunner } from "../kit/runner.ts"
import { startTestSessionAgent } from "../kit/session-agent.ts"
import { untilTrue } from "../kit/until-true.ts"

let model: ScriptedModel
let agent: ReturnType<typeof startTestSessionAgent>
let sandbox: Sandbox
beforeAll(async () => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({ config: scriptedConfig(model) })
  sandbox = await createSandbox(agent)
})
afterAll(async () => {
  await agent.stop()
  await model.stop()
  await sandbox.remove()
})

const path = (name: string) => join(sandbox.root, name)
const END = { code: 0, why: "the test restarts the runner" }

const control = async () => {
  const token = await signControlToken({
    key: sandbox.environment["JWT_SECRET"] ?? "",
    sessionId: "test-session",
    jti: crypto.randomUUID(),
    now: Date.now(),
  })
  return { authorization: `Bearer ${token}` }
}

test("a service starts again after the agent is ready, and not while the agent starts", async () => {
  const first = await startRunner(agent, {}, { in: sandbox })
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  const started = await fetch(`${first.gatewayUrl}/api/services`, {
    method: "POST",
    headers: await control(),
    body: JSON.stringify({
      name: "web",
      command: `echo start >> '${path("starts")}'; exec sleep 600`,
    }),
  })
  expect(started.status).toBe(200)
  const starts = async () => (await Bun.file(path("starts")).text()).split("\n").length - 1
  await untilTrue(() => existsSync(path("starts")), "the first start")
  await first.daemon.stop(END)

  const held = await holdOpenCode(sandbox)
  const second = await startRunner(agent, { OPENCODE_BIN: held.program }, { in: sandbox })
  await held.asked()
  const listed = await fetch(`${second.gatewayUrl}/api/services`, { headers: await control() })
  expect(await listed.json()).toMatchObject({ services: [{ name: "web", status: "stopped" }] })
  expect(await starts()).toBe(1)
  await held.release()
  await untilTrue(async () => (await starts()) >= 2, "the second start")
  expect(await starts()).toBe(2)
  const ready = second.log.findIndex((line) => line.includes('"agent.healthy"'))
  expect(ready).toBeGreaterThan(-1)
  await second.daemon.stop(END)
})
