/** A runner dies and another takes its place: the agent goes on, or is ended whole. */
import { describe, expect, test } from "bun:test"
import { startBusyTurn } from "../kit/busy-turn.ts"
import { agentPid, processesOf } from "../kit/processes.ts"
import {
  createSandbox,
  type Sandbox,
  scriptedConfig,
  spawnRunner,
  startRunner,
  type TestRunner,
} from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { useStage } from "../kit/stage.ts"

const stage = useStage()
let agent: TestSessionAgent
let sandbox: Sandbox
let second: TestRunner

const port = () => 20_000 + Math.floor(Math.random() * 10_000)

/** A runner to be killed; its gateway keeps its port, as in a sandbox. */
const startVictim = async (extra: Record<string, string> = {}) => {
  agent = stage.put(startTestSessionAgent({ config: scriptedConfig(stage.model()) }))
  sandbox = await createSandbox(agent)
  Object.assign(sandbox.environment, { GATEWAY_PORT: String(port()), ...extra })
  const victim = spawnRunner(sandbox)
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  return victim
}

const busyTurn = (messageId: string, seconds: number) =>
  startBusyTurn({ agent, model: stage.model() }, messageId, seconds)

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

    second = stage.put(await startRunner(agent, {}, { in: sandbox }))
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
    second = stage.put(await startRunner(agent, { AGENT_BASH_SECONDS: "100" }, { in: sandbox }))
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
    second = stage.put(await startRunner(agent, {}, { in: sandbox }))
    await agent.until(
      () => second?.log.some((line) => line.includes("agent.healthy")) === true,
      "a new one",
    )
    expect(processesOf({ sandbox }).map((found) => found.pid)).toEqual([agentPid({ sandbox })])
  })
})
