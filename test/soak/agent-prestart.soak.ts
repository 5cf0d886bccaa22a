/** The prestart: OpenCode is started before its configuration is known, and is then used or ended. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { text } from "../kit/model.ts"
import { agentPid, processesOf, untilAgentPid } from "../kit/processes.ts"
import {
  createSandbox,
  scriptedConfig,
  spawnRunner,
  startRunner,
  type TestRunner,
} from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { useStage } from "../kit/stage.ts"
import { untilTrue } from "../kit/until-true.ts"

const stage = useStage()
let agent: TestSessionAgent
let runner: TestRunner

const LONG_WAIT = { CONFIG_WAIT_SECONDS: "600" }
const idle = () => agent.frame("agentStatus", ({ status }) => status === "idle")

test("the prestarted process is used for the first configuration, and no other process is started", async () => {
  agent = stage.put(startTestSessionAgent())
  runner = stage.put(await startRunner(agent, LONG_WAIT))
  const pid = await untilAgentPid(runner)
  expect(agent.frames.some((frame) => frame.type === "opencode-config-applied")).toBe(false)
  agent.say({ type: "opencode-config", config: scriptedConfig(stage.model()) })
  await idle()
  expect(await agent.frame("opencode-config-applied")).toMatchObject({ success: true })
  expect(processesOf(runner).map((found) => found.pid)).toEqual([pid])
  stage.model().on("first", [text("as configured")])
  agent.say({ type: "prompt", messageId: "first", content: "@@first@@" })
  expect(await agent.frame("message.finalize")).toMatchObject({ finalText: "as configured" })
})

test("a configuration that needs another process ends the prestarted one", async () => {
  agent = stage.put(startTestSessionAgent())
  runner = stage.put(await startRunner(agent, LONG_WAIT))
  const pid = await untilAgentPid(runner)
  agent.say({
    type: "opencode-config",
    config: { ...scriptedConfig(stage.model()), isOrchestrator: true },
  })
  await idle()
  expect(await agent.frame("opencode-config-applied")).toMatchObject({ success: true })
  expect(agentPid(runner)).not.toBe(pid)
  expect(processesOf(runner)).toHaveLength(1)
})

test("a runner that is stopped before the first configuration leaves no process", async () => {
  agent = stage.put(startTestSessionAgent())
  const sandbox = await createSandbox(agent)
  const stopped = await startRunner(agent, LONG_WAIT, { in: sandbox })
  await untilAgentPid({ sandbox })
  await stopped.stop()
  expect(processesOf({ sandbox })).toEqual([])
})

test("the prestarted process of a killed runner is ended by the next runner", async () => {
  agent = stage.put(startTestSessionAgent({ config: scriptedConfig(stage.model()) }))
  const sandbox = await createSandbox(agent)
  const unreachable = { DO_WS_URL: "ws://127.0.0.1:1/unreachable", ...LONG_WAIT }
  const victim = spawnRunner(sandbox, unreachable)
  const record = Bun.file(join(sandbox.stateDir, "session/opencode-run.json"))
  await untilTrue(() => record.exists(), "record of the prestarted OpenCode")
  const pid = await untilAgentPid({ sandbox })
  victim.kill("SIGKILL")
  await victim.exited
  expect(agentPid({ sandbox })).toBe(pid)
  runner = stage.put(await startRunner(agent, {}, { in: sandbox }))
  await idle()
  expect(processesOf(runner)).toHaveLength(1)
  expect(agentPid(runner)).not.toBe(pid)
})
