/** A runner dies and another takes its place: the agent goes on, or is ended whole. */
import { afterEach, beforeAll, afterAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { startBusyTurn } from "../kit/busy-turn.ts"
import { type ScriptedModel, startScriptedModel } from "../kit/model.ts"
import { agentPid, processesOf } from "../kit/processes.ts"
import {
  createSandbox,
  repositoryRoot,
  type Sandbox,
  scriptedConfig,
  startRunner,
  type TestRunner,
} from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

let model: ScriptedModel
let agent: TestSessionAgent
let sandbox: Sandbox
let second: TestRunner | undefined

beforeAll(async () => {
  model = await startScriptedModel()
})
afterAll(() => model.stop())
afterEach(async () => {
  await second?.stop()
  second = undefined
  await agent.stop()
})

const port = () => 20_000 + Math.floor(Math.random() * 10_000)

/** A runner in a process of its own, to be killed; its gateway keeps its port, as in a sandbox. */
const startVictim = async (extra: Record<string, string> = {}) => {
  agent = startTestSessionAgent({ config: scriptedConfig(model) })
  sandbox = await createSandbox(agent)
  Object.assign(sandbox.environment, { GATEWAY_PORT: String(port()), ...extra })
  const victim = Bun.spawn([process.execPath, join(repositoryRoot, "src/main.ts"), "run"], {
    env: sandbox.environment,
    stdout: "ignore",
    stderr: "ignore",
  })
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  return victim
}

const busyTurn = (messageId: string, seconds: number) =>
  startBusyTurn({ agent, model }, messageId, seconds)

const finalize = (messageId: string) =>
  agent.frame("message.finalize", (frame) => frame.messageId === messageId)

describe("a runner that is killed in mid-turn", () => {
  test("leaves its OpenCode to the next one, and the turn goes on", async () => {
    const victim = await startVictim()
    await busyTurn("carried", 6)
    const pid = agentPid({ sandbox })
    victim.kill("SIGKILL")
    await victim.exited
    expect(agentPid({ sandbox })).toBe(pid)

    second = await startRunner(agent, {}, { in: sandbox })
    expect(await finalize("carried")).toMatchObject({
      reason: "end_turn",
      finalText: "carried is done",
    })
    expect(agentPid({ sandbox })).toBe(pid)
    expect(second.log.some((line) => line.includes("agent.adopted"))).toBe(true)
  })

  test("leaves one that is ended when the next runner wants another configuration", async () => {
    const victim = await startVictim()
    await busyTurn("ended", 300)
    const old = processesOf({ sandbox }).map(({ pid }) => pid)
    victim.kill("SIGKILL")
    await victim.exited
    second = await startRunner(agent, { AGENT_BASH_SECONDS: "100" }, { in: sandbox })
    // Whichever is seen first: that it was aborted, or that the process is another one.
    expect(["canceled", "error"]).toContain((await finalize("ended")).reason)
    await agent.until(
      () => second?.log.some((line) => line.includes("agent.healthy")) === true,
      "a new one",
    )
    const left = processesOf({ sandbox }).map(({ pid }) => pid)
    expect(left.filter((pid) => old.includes(pid))).toEqual([])
  })

  test("whose OpenCode is dead too leaves a record that is seen to be stale", async () => {
    const victim = await startVictim()
    await busyTurn("gone", 300)
    const pid = agentPid({ sandbox })
    victim.kill("SIGKILL")
    process.kill(pid, "SIGKILL")
    await victim.exited
    second = await startRunner(agent, {}, { in: sandbox })
    await agent.until(
      () => second?.log.some((line) => line.includes("agent.healthy")) === true,
      "a new one",
    )
    expect(processesOf({ sandbox }).map((found) => found.pid)).toEqual([agentPid({ sandbox })])
  })
})
