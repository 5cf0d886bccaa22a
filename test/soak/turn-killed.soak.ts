/** A runner that is killed in the middle of a turn, alone or together with OpenCode, and then restarted. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { answerOf } from "../kit/conversation.ts"
import { freePort } from "../kit/free-port.ts"
import { type ScriptedModel, startScriptedModel, text } from "../kit/model.ts"
import { killOpenCode } from "../kit/opencode-processes.ts"
import { createSandbox, type Sandbox, scriptedConfig, spawnRunner } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const on = (channelId: string) => ({ channelType: "test", channelId })

describe("a killed runner", () => {
  let model: ScriptedModel
  let agent: TestSessionAgent
  let sandbox: Sandbox

  beforeAll(async () => {
    model = await startScriptedModel()
    agent = startTestSessionAgent({ config: scriptedConfig(model) })
    sandbox = await createSandbox(agent)
    // A fixed gateway port: OpenCode's environment contains it, so another port would restart OpenCode.
    sandbox.environment["GATEWAY_PORT"] = String(freePort())
  })
  afterAll(async () => {
    await killOpenCode(sandbox)
    await agent.stop()
    await model.stop()
    await sandbox.remove()
  })

  let runners: ReturnType<typeof Bun.spawn>[] = []
  // A failed test must not leave a runner to the next test.
  afterEach(async () => {
    for (const runner of runners) runner.kill("SIGKILL")
    await Promise.all(runners.map((runner) => runner.exited))
    runners = []
    await killOpenCode(sandbox)
  })

  const startRunner = () => {
    const runner = spawnRunner(sandbox, { LOG_LEVEL: "warn" })
    runners.push(runner)
    return runner
  }
  /** Two starts of the runner and of OpenCode take longer than the usual limit for a frame. */
  const completed = (id: string) =>
    agent.until(() => answerOf(agent, id).of("complete").length > 0, `end of ${id}`)
  const idle = (from = 0) =>
    agent.until(
      () =>
        agent.frames
          .slice(from)
          .some(
            (frame) => frame.type === "agentStatus" && frame.status === "idle" && !frame.messageId,
          ),
      "idle runner",
    )

  test("a runner that is killed alone resumes its turn and sends the complete text once", async () => {
    const expected = Array.from({ length: 80 }, (_, n) => `word-${n} `).join("")
    model.on("survives", [text(expected, { chunks: 80, delayMs: 60 })])
    let runner = startRunner()
    await idle()
    agent.say({ type: "prompt", messageId: "survives", content: "@@survives@@", ...on("s") })
    await agent.frame("message.part.text-delta", ({ messageId }) => messageId === "survives")
    runner.kill("SIGKILL")
    await runner.exited
    runner = startRunner()
    await completed("survives")
    const answer = answerOf(agent, "survives")
    expect(answer.text).toBe(expected)
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: expected })
    expect(answer.of("message.create")).toHaveLength(1)
    expect(answer.of("message.finalize")).toHaveLength(1)
    expect(answer.of("complete")).toHaveLength(1)
    expect(new Set(answer.of("message.part.text-delta").map(({ turnId }) => turnId)).size).toBe(1)
    runner.kill("SIGTERM")
    expect(await runner.exited).toBe(0)
  })

  test("a runner that is killed together with OpenCode ends the lost turn with an error, runs the queued prompt and repeats nothing", async () => {
    const before = agent.frames.length
    const hellos = agent.hellos.length
    let runner = startRunner()
    await idle(before)
    model.on("lost", [text("some words ".repeat(50), { chunks: 50, delayMs: 60 })])
    model.on("waits", [text("I waited")])
    agent.say({ type: "prompt", messageId: "lost", content: "@@lost@@", ...on("a") })
    agent.say({ type: "prompt", messageId: "waits", content: "@@waits@@", ...on("a") })
    await agent.frame("message.part.text-delta", ({ messageId }) => messageId === "lost")

    runner.kill("SIGKILL")
    await runner.exited
    expect(await killOpenCode(sandbox)).toBe(1)
    runner = startRunner()
    await agent.until(() => agent.hellos.length === hellos + 2, "the second runner")
    expect(agent.hellos.at(-1)?.active).toMatchObject([
      { messageId: "lost", channelKey: "test:a" },
      { messageId: "waits", channelKey: "test:a" },
    ])
    await completed("waits")
    expect(answerOf(agent, "waits").final).toMatchObject({
      reason: "end_turn",
      finalText: "I waited",
    })
    const lost = answerOf(agent, "lost")
    expect(lost.of("message.create")).toHaveLength(1)
    expect(lost.of("message.finalize")).toHaveLength(1)
    expect(lost.final).toMatchObject({
      reason: "error",
      error: "OpenCode was stopped during the turn",
    })
    expect(lost.of("complete")).toHaveLength(1)
    expect("some words ".repeat(50)).toStartWith(lost.text)

    // A session agent that missed the ends sends both prompts again: neither runs again.
    const calls = model.requests.length
    const from = agent.frames.length
    for (const messageId of ["lost", "waits"]) {
      agent.say({ type: "prompt", messageId, content: "again", ...on("a") })
    }
    await agent.frame("complete", ({ messageId }) => messageId === "waits", from)
    expect(model.requests).toHaveLength(calls)
    expect(agent.problems).toEqual([])
    runner.kill("SIGTERM")
    expect(await runner.exited).toBe(0)
  })
})
