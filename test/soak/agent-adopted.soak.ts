/** A runner is killed and another takes over: it adopts the running OpenCode, or ends it with its descendants. */
import { describe, expect, test } from "bun:test"
import { startBusyTurn, startHeldTurn } from "../kit/busy-turn.ts"
import { freePort } from "../kit/free-port.ts"
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
import { untilTrue } from "../kit/until-true.ts"

const stage = useStage()
let agent: TestSessionAgent
let sandbox: Sandbox
let second: TestRunner

/** Starts a runner to be killed; its gateway has a fixed port, as in a sandbox. */
const startVictim = async (extra: Record<string, string> = {}) => {
  agent = stage.put(startTestSessionAgent({ config: scriptedConfig(stage.model()) }))
  sandbox = await createSandbox(agent)
  Object.assign(sandbox.environment, { GATEWAY_PORT: String(freePort()), ...extra })
  const victim = spawnRunner(sandbox)
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  return victim
}

const busyTurn = (messageId: string, seconds: number) =>
  startBusyTurn({ agent, model: stage.model() }, messageId, seconds)

const finalize = (messageId: string) =>
  agent.frame("message.finalize", (frame) => frame.messageId === messageId)

describe("a runner that is killed during a turn", () => {
  test("the next runner adopts the OpenCode of a killed runner, and the turn continues", async () => {
    const victim = await startVictim()
    const release = await startHeldTurn({ agent, model: stage.model() }, "carried", sandbox)
    const pid = agentPid({ sandbox })
    victim.kill("SIGKILL")
    await victim.exited
    expect(agentPid({ sandbox })).toBe(pid)

    second = stage.put(await startRunner(agent, {}, { in: sandbox }))
    const isAdopted = () => second.log.some((line) => line.includes("agent.adopted"))
    await untilTrue(isAdopted, "the adoption of OpenCode")
    await release()
    expect(await finalize("carried")).toMatchObject({
      reason: "end_turn",
      finalText: "carried is done",
    })
    expect(agentPid({ sandbox })).toBe(pid)
    expect(isAdopted()).toBe(true)
  })

  test("the next runner ends the OpenCode of a killed runner when its configuration differs", async () => {
    const victim = await startVictim()
    await busyTurn("ended", 300)
    const old = processesOf({ sandbox }).map(({ pid }) => pid)
    victim.kill("SIGKILL")
    await victim.exited
    second = stage.put(await startRunner(agent, { AGENT_BASH_SECONDS: "100" }, { in: sandbox }))
    // Either the abort or the new process is seen first.
    expect(["canceled", "error"]).toContain((await finalize("ended")).reason)
    await agent.until(
      () => second?.log.some((line) => line.includes("agent.healthy")) === true,
      "a new OpenCode is healthy",
    )
    const left = processesOf({ sandbox }).map(({ pid }) => pid)
    expect(left.filter((pid) => old.includes(pid))).toEqual([])
    // Also a command that the old OpenCode has started since then.
    expect(left).toEqual([agentPid({ sandbox })])
  })

  test("the next runner ignores the stale record of an OpenCode that was killed with its runner", async () => {
    const victim = await startVictim()
    await busyTurn("gone", 300)
    const pid = agentPid({ sandbox })
    victim.kill("SIGKILL")
    process.kill(pid, "SIGKILL")
    await victim.exited
    second = stage.put(await startRunner(agent, {}, { in: sandbox }))
    await agent.until(
      () => second?.log.some((line) => line.includes("agent.healthy")) === true,
      "a new OpenCode is healthy",
    )
    expect(processesOf({ sandbox }).map((found) => found.pid)).toEqual([agentPid({ sandbox })])
  })
})
