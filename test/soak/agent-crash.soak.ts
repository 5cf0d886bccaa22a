/** OpenCode dies, hangs, loses its port, and leaves things behind: what the channel hears and what is left. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import {
  hang,
  overflow,
  reply,
  type ScriptedModel,
  startScriptedModel,
  text,
  tool,
} from "../kit/model.ts"
import { scriptedConfig, startRunner, type TestRunner } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { agentPid, processesOf } from "../kit/processes.ts"

let model: ScriptedModel
let agent: TestSessionAgent
let runner: TestRunner

beforeAll(async () => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({ config: scriptedConfig(model) })
  runner = await startRunner(agent, {}, { watch: { everyMs: 500, misses: 3 } })
  await agent.frame("agentStatus", ({ status }) => status === "idle")
})

afterAll(async () => {
  await runner.stop()
  await agent.stop()
  await model.stop()
})

const idleFor = (messageId: string) =>
  agent.frame("agentStatus", (frame) => frame.status === "idle" && frame.messageId === messageId)

const finalTextOf = (messageId: string) =>
  agent.frames.find((frame) => frame.type === "message.finalize" && frame.messageId === messageId)

const says = (messageId: string, content: string) =>
  agent.say({ type: "prompt", messageId, content })

const toolRuns = (messageId: string) =>
  agent.frame(
    "message.part.tool-update",
    (frame) => frame.messageId === messageId && frame.status === "running",
  )

describe("kill -9 in mid-turn", () => {
  test("is told within 2 s, and the next prompt has the history", async () => {
    model.on("remember", [text("I will remember the word heron.")])
    model.on("work", [
      reply(tool("bash", { command: "sleep 300 & sleep 300", description: "works" })),
      text("never said"),
    ])
    says("c1", "@@remember@@")
    await idleFor("c1")
    says("c2", "@@work@@")
    await toolRuns("c2")
    const pid = agentPid(runner)
    await agent.until(() => processesOf(runner).length >= 2, "the tool's processes")

    const killedAt = Date.now()
    process.kill(pid, "SIGKILL")
    await agent.frame("complete", (frame) => frame.messageId === "c2")
    expect(Date.now() - killedAt).toBeLessThan(2000)
    expect(finalTextOf("c2")).toMatchObject({ reason: "error" })
    expect(
      JSON.stringify(agent.frames.filter((f) => "messageId" in f && f.messageId === "c2")),
    ).toContain("killed by SIGKILL")

    model.on("after", [text("back again")])
    says("c3", "@@after@@ what was the word?")
    await idleFor("c3")
    expect(finalTextOf("c3")).toMatchObject({ reason: "end_turn", finalText: "back again" })
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("the word heron")
    expect(agentPid(runner)).not.toBe(pid)
    // Of the old one and its tool nothing is left: everything that runs is the new one.
    expect(processesOf(runner).map(({ pid: one }) => one)).toEqual([agentPid(runner)])
  })
})

describe("kill -9 while the conversation is shortened", () => {
  /** The call that shortens is about the conversation before it, and so goes by that one's name. */
  const converse = async (name: string) => {
    model.on(name, [text(`some history of ${name}`), hang()])
    says(name, `@@${name}@@`)
    await idleFor(name)
  }
  const shortening = async (asked: number) => {
    await agent.until(() => model.requests.length === asked, "the call that shortens")
    process.kill(agentPid(runner), "SIGKILL")
  }
  const answersNext = async (name: string, history: string) => {
    model.on(name, [text(`the answer to ${name}`)])
    says(name, `@@${name}@@ and now?`)
    await idleFor(name)
    expect(finalTextOf(name)).toMatchObject({
      reason: "end_turn",
      finalText: `the answer to ${name}`,
    })
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain(`some history of ${history}`)
  }

  test("by a prompt that was too long ends that prompt once, and the next one is answered itself", async () => {
    await converse("before-long")
    model.on("too-long", [overflow()])
    const asked = model.requests.length
    says("too-long", "@@too-long@@")
    await shortening(asked + 2)
    await idleFor("too-long")
    const ends = agent.frames.filter(
      (frame) =>
        (frame.type === "error" || frame.type === "complete") && frame.messageId === "too-long",
    )
    expect(ends).toMatchObject([
      { type: "error", error: "OpenCode was killed by SIGKILL" },
      { type: "complete" },
    ])
    await answersNext("after-long", "before-long")
  })

  test("by `compact` ends the command once with an error, and the next prompt is answered itself", async () => {
    await converse("before-compact")
    const asked = model.requests.length
    agent.say({ type: "opencode-command", command: "compact", requestId: "k1" })
    await shortening(asked + 1)
    const { error } = await agent.frame("command-result", ({ requestId }) => requestId === "k1")
    expect(error).toMatch(/^OpenCode: POST \S+ got no answer: ECONNRESET: .*unexpectedly\.$/)
    await answersNext("after-compact", "before-compact")
    expect(
      agent.frames.filter((frame) => frame.type === "command-result" && frame.requestId === "k1"),
    ).toHaveLength(1)
  })
})

describe("a stopped OpenCode", () => {
  test("is found not to answer, is ended with all it started, and comes back", async () => {
    model.on("stall", [
      reply(tool("bash", { command: "sleep 300", description: "works" })),
      text("never said"),
    ])
    says("h1", "@@stall@@")
    await toolRuns("h1")
    const pid = agentPid(runner)
    process.kill(pid, "SIGSTOP")
    await agent.frame("complete", (frame) => frame.messageId === "h1")
    expect(JSON.stringify(agent.frames)).toContain("has not answered 3 times in a row")
    model.on("awake", [text("awake")])
    says("h2", "@@awake@@")
    await idleFor("h2")
    expect(finalTextOf("h2")).toMatchObject({ finalText: "awake" })
    expect(processesOf(runner).map(({ pid: one }) => one)).toEqual([agentPid(runner)])
  })

  test("for a moment only goes on where it was", async () => {
    model.on("brief", [hang(), text("unused")])
    says("h3", "@@brief@@")
    await agent.frame("agentStatus", (frame) => frame.messageId === "h3")
    const pid = agentPid(runner)
    process.kill(pid, "SIGSTOP")
    await Bun.sleep(900)
    process.kill(pid, "SIGCONT")
    agent.say({ type: "abort" })
    await idleFor("h3")
    expect(agentPid(runner)).toBe(pid)
  })
})

describe("a tool that leaves daemons behind", () => {
  test("leaves none when the runner stops", async () => {
    model.on("daemon", [
      reply(
        tool("bash", {
          command: "setsid sh -c '(sleep 300 &) ; sleep 300 &' >/dev/null 2>&1 & disown; echo left",
          description: "leaves",
        }),
      ),
      text("done"),
    ])
    says("d1", "@@daemon@@")
    await idleFor("d1")
    await agent.until(() => processesOf(runner).length >= 3, "two daemons")
    await runner.daemon.stop({ code: 0, why: "the test wants to see what is left" })
    expect(processesOf(runner)).toEqual([])
  })
})
