/** OpenCode is killed, hangs and leaves processes behind: what the channel receives and which processes remain. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Conversation, leaveEmpty, startConversation } from "../../kit/conversation.ts"
import { hang, overflow, reply, text, tool } from "../../kit/model.ts"
import { agentPid, processesOf } from "../../kit/processes.ts"

let c: Conversation

beforeAll(async () => {
  c = await startConversation({}, { furnish: leaveEmpty, watch: { everyMs: 500, misses: 3 } })
})
afterAll(() => c.stop())

const idleFor = (messageId: string) =>
  c.agent.frame("agentStatus", (frame) => frame.status === "idle" && frame.messageId === messageId)

const finalizeOf = (messageId: string) =>
  c.agent.frames.find((frame) => frame.type === "message.finalize" && frame.messageId === messageId)

const sendPrompt = (messageId: string, content: string) =>
  c.agent.say({ type: "prompt", messageId, content })

const toolRuns = (messageId: string) =>
  c.agent.frame(
    "message.part.tool-update",
    (frame) => frame.messageId === messageId && frame.status === "running",
  )

describe("kill -9 during a turn", () => {
  test("a killed OpenCode ends the turn within 2 s, and the next prompt has the history", async () => {
    c.model.on("remember", [text("I will remember the word heron.")])
    c.model.on("work", [
      reply(tool("bash", { command: "sleep 300 & sleep 300", description: "works" })),
      text("never sent"),
    ])
    sendPrompt("c1", "@@remember@@")
    await idleFor("c1")
    sendPrompt("c2", "@@work@@")
    await toolRuns("c2")
    const pid = agentPid(c.runner)
    await c.agent.until(() => processesOf(c.runner).length >= 2, "the tool's processes")

    const killedAt = Date.now()
    process.kill(pid, "SIGKILL")
    await c.agent.frame("complete", (frame) => frame.messageId === "c2")
    expect(Date.now() - killedAt).toBeLessThan(2000)
    expect(finalizeOf("c2")).toMatchObject({ reason: "error" })
    expect(
      JSON.stringify(c.agent.frames.filter((f) => "messageId" in f && f.messageId === "c2")),
    ).toContain("killed by SIGKILL")

    c.model.on("after", [text("back again")])
    sendPrompt("c3", "@@after@@ what was the word?")
    await idleFor("c3")
    expect(finalizeOf("c3")).toMatchObject({ reason: "end_turn", finalText: "back again" })
    expect(JSON.stringify(c.model.requests.at(-1)?.messages)).toContain("the word heron")
    expect(agentPid(c.runner)).not.toBe(pid)
    // Nothing is left of the old OpenCode and its tool: only the new process runs.
    expect(processesOf(c.runner).map(({ pid: one }) => one)).toEqual([agentPid(c.runner)])
  })
})

describe("kill -9 during a compaction", () => {
  /** The compaction's model call quotes the conversation before it, and so matches that conversation's script. */
  const converse = async (name: string) => {
    c.model.on(name, [text(`some history of ${name}`), hang()])
    sendPrompt(name, `@@${name}@@`)
    await idleFor(name)
  }
  const killDuringCompaction = async (asked: number) => {
    await c.agent.until(() => c.model.requests.length === asked, "the compaction's model call")
    process.kill(agentPid(c.runner), "SIGKILL")
  }
  const expectNextReply = async (name: string, history: string) => {
    c.model.on(name, [text(`the reply to ${name}`)])
    sendPrompt(name, `@@${name}@@ and now?`)
    await idleFor(name)
    expect(finalizeOf(name)).toMatchObject({
      reason: "end_turn",
      finalText: `the reply to ${name}`,
    })
    expect(JSON.stringify(c.model.requests.at(-1)?.messages)).toContain(
      `some history of ${history}`,
    )
  }

  test("a kill during the compaction of a prompt that is too long ends that prompt once, and the next prompt gets its own reply", async () => {
    await converse("before-long")
    c.model.on("too-long", [overflow()])
    const asked = c.model.requests.length
    sendPrompt("too-long", "@@too-long@@")
    await killDuringCompaction(asked + 2)
    await idleFor("too-long")
    const ends = c.agent.frames.filter(
      (frame) =>
        (frame.type === "error" || frame.type === "complete") && frame.messageId === "too-long",
    )
    expect(ends).toMatchObject([
      { type: "error", error: "OpenCode was killed by SIGKILL" },
      { type: "complete" },
    ])
    await expectNextReply("after-long", "before-long")
  })

  test("a kill during `compact` ends the command once with an error, and the next prompt gets its own reply", async () => {
    await converse("before-compact")
    const asked = c.model.requests.length
    c.agent.say({ type: "opencode-command", command: "compact", requestId: "k1" })
    await killDuringCompaction(asked + 1)
    const { error } = await c.agent.frame("command-result", ({ requestId }) => requestId === "k1")
    expect(error).toMatch(/^OpenCode: POST \S+ got no response: ECONNRESET: .*unexpectedly\.$/)
    await expectNextReply("after-compact", "before-compact")
    expect(
      c.agent.frames.filter((frame) => frame.type === "command-result" && frame.requestId === "k1"),
    ).toHaveLength(1)
  })
})

describe("an OpenCode that is stopped by SIGSTOP", () => {
  test("a hung OpenCode is detected, ended with its descendants and started again", async () => {
    c.model.on("stall", [
      reply(tool("bash", { command: "sleep 300", description: "works" })),
      text("never sent"),
    ])
    sendPrompt("h1", "@@stall@@")
    await toolRuns("h1")
    const pid = agentPid(c.runner)
    process.kill(pid, "SIGSTOP")
    await c.agent.frame("complete", (frame) => frame.messageId === "h1")
    expect(JSON.stringify(c.agent.frames)).toContain("did not respond to 3 health checks in a row")
    c.model.on("awake", [text("awake")])
    sendPrompt("h2", "@@awake@@")
    await idleFor("h2")
    expect(finalizeOf("h2")).toMatchObject({ finalText: "awake" })
    expect(processesOf(c.runner).map(({ pid: one }) => one)).toEqual([agentPid(c.runner)])
  })

  test("an OpenCode that is stopped briefly continues in the same process", async () => {
    c.model.on("brief", [hang(), text("unused")])
    sendPrompt("h3", "@@brief@@")
    await c.agent.frame("agentStatus", (frame) => frame.messageId === "h3")
    const pid = agentPid(c.runner)
    process.kill(pid, "SIGSTOP")
    // Sleep: shorter than the three health checks of a hung OpenCode, which take 1.5 s each.
    await Bun.sleep(900)
    process.kill(pid, "SIGCONT")
    c.agent.say({ type: "abort" })
    await idleFor("h3")
    expect(agentPid(c.runner)).toBe(pid)
  })
})

describe("a tool that leaves daemons behind", () => {
  test("daemons that a tool left behind are ended when the runner stops", async () => {
    c.model.on("daemon", [
      reply(
        tool("bash", {
          command: "setsid sh -c '(sleep 300 &) ; sleep 300 &' >/dev/null 2>&1 & disown; echo left",
          description: "leaves",
        }),
      ),
      text("done"),
    ])
    sendPrompt("d1", "@@daemon@@")
    await idleFor("d1")
    await c.agent.until(() => processesOf(c.runner).length >= 3, "two daemons")
    await c.runner.daemon.stop({ code: 0, why: "the test checks for leftover processes" })
    expect(processesOf(c.runner)).toEqual([])
  })
})
