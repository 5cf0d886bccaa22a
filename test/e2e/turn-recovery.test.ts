/** What is left of a turn when the stream, OpenCode or the runner itself goes away in the middle of it. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { answerOf, type Conversation, startConversation } from "../kit/conversation.ts"
import { reply, type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, repositoryRoot, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const on = (channelId: string) => ({ channelType: "test", channelId })

/** Every OpenCode that was started in this sandbox, whoever started it. */
const opencodesOf = async ({ root }: Pick<Sandbox, "root">): Promise<readonly number[]> => {
  const found: number[] = []
  for (const entry of await readdir("/proc")) {
    const pid = Number(entry)
    if (!Number.isInteger(pid)) continue
    const read = (file: string) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "")
    if (!(await read("cmdline")).includes("opencode\0serve")) continue
    if ((await read("environ")).includes(root)) found.push(pid)
  }
  return found
}

const killOpenCode = async (sandbox: Sandbox): Promise<number> => {
  const pids = await opencodesOf(sandbox)
  for (const pid of pids) process.kill(pid, "SIGKILL")
  return pids.length
}

describe("the event stream", () => {
  let c: Conversation
  const originalFetch = globalThis.fetch
  let streams: AbortController[] = []

  /** Lets a test cut the runner's subscription as a network would. */
  const cutStreams = () => {
    const cut = streams
    streams = []
    for (const stream of cut) stream.abort(new Error("cut by the test"))
  }

  beforeAll(async () => {
    const cuttable = (input: Parameters<typeof fetch>[0], init: RequestInit = {}) => {
      const url = input instanceof Request ? input.url : input.toString()
      if (!url.includes("/global/event")) return originalFetch(input, init)
      const cut = new AbortController()
      streams.push(cut)
      const signal = init.signal ? AbortSignal.any([init.signal, cut.signal]) : cut.signal
      return originalFetch(input, { ...init, signal })
    }
    globalThis.fetch = Object.assign(cuttable, { preconnect: originalFetch.preconnect })
    c = await startConversation()
  })
  afterAll(async () => {
    globalThis.fetch = originalFetch
    await c.stop()
  })

  test("cut in the middle of a text loses no word and doubles none", async () => {
    const words = Array.from({ length: 60 }, (_, n) => `w${n} `).join("")
    c.model.on("cut-text", [text(words, { chunks: 60, delayMs: 25 })])
    c.say("s1", "@@cut-text@@", on("s1"))
    for (const seen of [5, 12]) {
      await c.agent.until(
        () => answerOf(c.agent, "s1").of("message.part.text-delta").length >= Math.min(seen, 5),
        "some words",
      )
      await Bun.sleep(seen * 20)
      cutStreams()
    }
    const answer = await c.ended("s1")
    expect(answer.text).toBe(words)
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: words })
    expect(answer.of("message.finalize")).toHaveLength(1)
    expect(answer.of("complete")).toHaveLength(1)
  })

  test("cut while a tool runs shows the tool's end, and the text after it", async () => {
    const slow = tool("bash", { command: "sleep 0.5; echo slept", description: "wait" })
    c.model.on("cut-tool", [reply(text("before "), slow), text("after")])
    c.say("s2", "@@cut-tool@@", on("s2"))
    await c.agent.frame(
      "message.part.tool-update",
      ({ messageId, status }) => messageId === "s2" && status === "running",
    )
    cutStreams()
    const answer = await c.ended("s2")
    expect(answer.of("message.part.tool-update").at(-1)).toMatchObject({
      status: "completed",
      result: "slept\n",
    })
    expect(answer.text).toBe("before after")
  })

  test("cut while a question is asked does not leave it unasked", async () => {
    const questions = [
      { question: "Heard?", header: "H", options: [{ label: "Yes", description: "y" }] },
    ]
    c.model.on("cut-question", [
      reply(text("first ", { chunks: 3, delayMs: 100 }), tool("question", { questions })),
      text("thanks"),
    ])
    c.say("s3", "@@cut-question@@", on("s3"))
    await c.agent.frame("message.part.text-delta", ({ messageId }) => messageId === "s3")
    cutStreams()
    const { questionId } = await c.agent.frame("question", ({ messageId }) => messageId === "s3")
    c.agent.say({ type: "answer", questionId, answer: "Yes" })
    expect((await c.ended("s3")).final).toMatchObject({ finalText: "first thanks" })
  })

  test("lost with OpenCode ends the turn at once, and the next prompt finds the next OpenCode", async () => {
    c.model.on("crash", [text("on and on ".repeat(50), { chunks: 50, delayMs: 50 })])
    c.say("s4", "@@crash@@", on("s4"))
    await c.agent.frame("message.part.text-delta", ({ messageId }) => messageId === "s4")
    expect(await killOpenCode(c.runner.sandbox)).toBe(1)
    c.model.on("crash", [text("I am back")])
    const next = c.ask("s5", "and now?", on("s4"))
    const answer = await c.ended("s4")
    expect(answer.final?.reason).toBe("error")
    expect(answer.final?.finalText).toBe(answer.text)
    expect(answer.of("complete")).toHaveLength(1)
    expect((await next).final).toMatchObject({ reason: "end_turn", finalText: "I am back" })
  })
})

describe("the runner, killed", () => {
  let model: ScriptedModel
  let agent: TestSessionAgent
  let sandbox: Sandbox

  beforeAll(async () => {
    model = await startScriptedModel()
    agent = startTestSessionAgent({ config: scriptedConfig(model) })
    sandbox = await createSandbox(agent)
    // The same door in each life: OpenCode's tools know it, so with another it would have to be started anew.
    const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } })
    sandbox.environment["GATEWAY_PORT"] = String(server.port)
    server.stop()
  })
  afterAll(async () => {
    await killOpenCode(sandbox)
    await agent.stop()
    await model.stop()
    await sandbox.remove()
  })

  let lives: ReturnType<typeof Bun.spawn>[] = []
  // A test that failed must not leave a runner to the next one.
  afterEach(async () => {
    for (const life of lives) life.kill("SIGKILL")
    await Promise.all(lives.map((life) => life.exited))
    lives = []
    await killOpenCode(sandbox)
  })

  const spawnRunner = () => {
    const life = Bun.spawn([process.execPath, join(repositoryRoot, "src/main.ts"), "run"], {
      env: { ...sandbox.environment, LOG_LEVEL: "warn" },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
    })
    lives.push(life)
    return life
  }
  /** Two lives and two starts of OpenCode: longer than what a frame is usually waited for. */
  const completed = (id: string) =>
    agent.until(() => answerOf(agent, id).of("complete").length > 0, `end of ${id}`, 50_000)
  const idle = (from = 0) =>
    agent.until(
      () =>
        agent.frames
          .slice(from)
          .some(
            (frame) => frame.type === "agentStatus" && frame.status === "idle" && !frame.messageId,
          ),
      "idle runner",
      50_000,
    )

  test("alone goes on with the same turn where it stopped, word for word", async () => {
    const words = Array.from({ length: 80 }, (_, n) => `word-${n} `).join("")
    model.on("survives", [text(words, { chunks: 80, delayMs: 60 })])
    let runner = spawnRunner()
    await idle()
    agent.say({ type: "prompt", messageId: "survives", content: "@@survives@@", ...on("s") })
    await agent.frame("message.part.text-delta", ({ messageId }) => messageId === "survives")
    runner.kill("SIGKILL")
    await runner.exited
    runner = spawnRunner()
    await completed("survives")
    const answer = answerOf(agent, "survives")
    expect(answer.text).toBe(words)
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: words })
    expect(answer.of("message.create")).toHaveLength(1)
    expect(answer.of("message.finalize")).toHaveLength(1)
    expect(answer.of("complete")).toHaveLength(1)
    expect(new Set(answer.of("message.part.text-delta").map(({ turnId }) => turnId)).size).toBe(1)
    runner.kill("SIGTERM")
    expect(await runner.exited).toBe(0)
  })

  test("together with OpenCode ends the turn that was lost with an error, runs what waited, and says nothing twice", async () => {
    const before = agent.frames.length
    const hellos = agent.hellos.length
    let runner = spawnRunner()
    await idle(before)
    model.on("lost", [text("some words ".repeat(50), { chunks: 50, delayMs: 60 })])
    model.on("waits", [text("I waited")])
    agent.say({ type: "prompt", messageId: "lost", content: "@@lost@@", ...on("a") })
    agent.say({ type: "prompt", messageId: "waits", content: "@@waits@@", ...on("a") })
    await agent.frame("message.part.text-delta", ({ messageId }) => messageId === "lost")

    runner.kill("SIGKILL")
    await runner.exited
    expect(await killOpenCode(sandbox)).toBe(1)
    runner = spawnRunner()
    await agent.until(() => agent.hellos.length === hellos + 2, "the second life")
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
    expect(lost.final).toMatchObject({ reason: "error", error: "OpenCode was stopped in mid-turn" })
    expect(lost.of("complete")).toHaveLength(1)
    expect("some words ".repeat(50)).toStartWith(lost.text)

    // The session agent never heard of an end and says both again: nothing runs again.
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
