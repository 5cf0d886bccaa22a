/** The frames of a turn with the real OpenCode, on one channel and on several. All tests share one runner, model and OpenCode. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { type Conversation, startConversation, withoutReports } from "../kit/conversation.ts"
import { reasoning, reply, text, tool, tools, usage, waitFor } from "../kit/model.ts"
import { untilPromptIsStored } from "../kit/stored-prompt.ts"
import { untilEqual } from "../kit/until-true.ts"

const PASSWORD = "password-of-opencode-in-this-test"
let c: Conversation
beforeAll(async () => {
  c = await startConversation({ OPENCODE_SERVER_PASSWORD: PASSWORD })
})
afterEach(async () => {
  await c.agent.settle()
  expect(c.agent.problems).toEqual([])
})
afterAll(() => c.stop())

describe("one prompt", () => {
  test("reasoning is sent separately from the answer", async () => {
    c.model.on("think", [reply(reasoning("hm, well", { chunks: 2 }), text("42", { chunks: 2 }))])
    const answer = await c.ask("r1", "@@think@@")
    const thought = answer.of("message.part.reasoning-delta").map(({ delta }) => delta)
    expect(thought.join("")).toBe("hm, well")
    expect(answer.text).toBe("42")
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: "42" })
    expect(answer.final?.turnId).not.toBe("r1")
  })

  test("three parallel tool calls are each reported until completion", async () => {
    const calls = ["a", "b", "c"].map((name) => ({
      name: "bash",
      args: { command: `echo ${name}`, description: name },
    }))
    c.model.on("three", [tools(calls), text("all done")])
    const answer = await c.ask("t1", "@@three@@")
    const updates = answer.of("message.part.tool-update")
    expect(new Set(updates.map(({ callId }) => callId)).size).toBe(3)
    const results = updates.filter(({ status }) => status === "completed")
    expect(new Set(results.map(({ result }) => result))).toEqual(new Set(["a\n", "b\n", "c\n"]))
    expect(answer.of("agentStatus").map(({ status }) => status)).toContain("tool_calling")
  })

  test("a failed tool call is reported with its error and the turn continues", async () => {
    c.model.on("broken-tool", [tool("read", { filePath: "/no/such/file" }), text("never mind")])
    const answer = await c.ask("t2", "@@broken-tool@@")
    const last = answer.of("message.part.tool-update").at(-1)
    expect(last).toMatchObject({ toolName: "read", status: "error" })
    expect(last?.error).toContain("/no/such/file")
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: "never mind" })
  })

  test("a todo list is sent as a whole", async () => {
    const todos = [
      { content: "first", status: "in_progress", priority: "high" },
      { content: "second", status: "pending", priority: "low" },
    ]
    c.model.on("todo", [tool("todowrite", { todos }), text("noted")])
    const answer = await c.ask("t3", "@@todo@@")
    expect(answer.of("todo").at(-1)?.items).toMatchObject(todos)
  })

  test("token usage is reported per message, cached tokens included", async () => {
    const cost = usage({ input: 100, output: 20, cached: 60 })
    c.model.on("cost", [reply(text("cheap"), cost)])
    const answer = await c.ask("u1", "@@cost@@")
    expect(answer.of("usage")).toMatchObject([
      { model: "scripted/m1", input: 40, output: 20, cacheRead: 60 },
    ])
  })

  test("the model receives the author and the channel of a prompt", async () => {
    c.model.on("who", [text("hello Ada")])
    await c.ask("a1", "@@who@@", {
      channelType: "telegram",
      channelId: "12345",
      authorName: "Ada",
      authorEmail: "ada@example.com",
    })
    const said = JSON.stringify(c.model.requests.at(-1)?.messages)
    expect(said).toContain("[From Ada <ada@example.com> via telegram, chat 12345]")
  })

  test("commits of concurrent turns carry the git identity of their own prompt", async () => {
    // Each commits to a repository of its own, because two commits cannot hold the lock of one. Each waits until the other runs.
    const commit = (name: string, other: string) => {
      const repository = `.git/of-${name}`
      const command = [
        `git init -q ${repository}`,
        `until [ -e .git/of-${other} ]; do sleep 0.05; done`,
        `git -C ${repository} commit -q --allow-empty -m first`,
        `git -C ${repository} log -1 --format="%an <%ae> %cn"`,
      ].join(" && ")
      return tool("bash", { command, description: "commit" })
    }
    c.model.on("commit-ada", [commit("ada", "bob"), text("ok")])
    c.model.on("commit-bob", [commit("bob", "ada"), text("ok")])
    const [ada, bob] = await Promise.all([
      c.ask("g1", "@@commit-ada@@", { gitName: "Ada", gitEmail: "ada@example.com" }),
      c.ask("g2", "@@commit-bob@@", {
        channelType: "slack",
        channelId: "bob",
        gitName: "Bob",
        gitEmail: "bob@example.com",
      }),
    ])
    const result = (answer: typeof ada) => answer.of("message.part.tool-update").at(-1)?.result
    expect(result(ada)).toBe("Ada <ada@example.com> Ada\n")
    expect(result(bob)).toBe("Bob <bob@example.com> Bob\n")
  })

  test("a turn that changes files is followed by the list of changed files", async () => {
    const filePath = join(c.runner.sandbox.workDir, "made.txt")
    c.model.on("make", [tool("write", { filePath, content: "one\ntwo\n" }), text("made")])
    const from = c.agent.frames.length
    await c.ask("f1", "@@make@@")
    const lastReport = () =>
      c.agent.frames
        .slice(from)
        .flatMap((frame) => (frame.type === "files-changed" ? [frame.files] : []))
        .at(-1)
    const made = { path: "made.txt", status: "added", additions: 2, deletions: 0 } as const
    await untilEqual(lastReport, [made], "report of the changed file")
    expect(lastReport()).toEqual([made])
  })

  test("the title of the conversation is sent", async () => {
    c.model.on("titled", [text("ok")])
    const from = c.agent.frames.length
    await c.ask("title1", "@@titled@@", { channelType: "web", channelId: "titled" })
    await c.agent.frame("title", ({ title }) => title === "Scripted title", from)
  })

  test("a duplicate prompt is not run again and its final state is sent", async () => {
    c.model.on("again", [text("only once")])
    await c.ask("again1", "@@again@@")
    const calls = c.model.requests.length
    const from = c.agent.frames.length
    c.say("again1", "@@again@@")
    await c.agent.frame("agentStatus", ({ messageId }) => messageId === "again1", from)
    expect(c.model.requests).toHaveLength(calls)
    const again = withoutReports(c.agent.frames.slice(from)).map(({ type }) => type)
    expect(again).toEqual(["complete", "agentStatus"])
  })
})

describe("several prompts", () => {
  test("prompts on one channel run one after the other in order, and a duplicate runs once", async () => {
    for (const name of ["q1", "q2", "q3"]) {
      c.model.on(`queue-${name}`, [text(`answer ${name}`, { chunks: 4, delayMs: 20 })])
      c.say(name, `@@queue-${name}@@`)
    }
    c.say("q2", "@@queue-q2@@")
    await c.ended("q3")
    const order = c.agent.frames.flatMap((frame) =>
      frame.type === "message.finalize" && /^q\d$/.test(frame.messageId ?? "")
        ? [`${frame.messageId} ${frame.finalText}`]
        : [],
    )
    expect(order).toEqual(["q1 answer q1", "q2 answer q2", "q3 answer q3"])
  })

  test("prompts on two channels stream at the same time on separate agent sessions", async () => {
    // Each answer continues only after a part of the other one arrived, so neither can end before the other began.
    const arrived = (messageId: string, words: string) =>
      c.agent.frame(
        "message.part.text-delta",
        (frame) => frame.messageId === messageId && frame.delta.includes(words),
      )
    c.model.on("left", [
      reply(text("left one. "), waitFor(arrived("r2", "right one")), text("left two.")),
    ])
    c.model.on("right", [
      reply(
        waitFor(arrived("l1", "left one")),
        text("right one. "),
        waitFor(arrived("l1", "left two")),
        text("right two."),
      ),
    ])
    const [left, right] = await Promise.all([
      c.ask("l1", "@@left@@", { channelType: "web", channelId: "left" }),
      c.ask("r2", "@@right@@", { channelType: "web", channelId: "right" }),
    ])
    expect(left.text).toBe("left one. left two.")
    expect(right.text).toBe("right one. right two.")
    expect(left.of("message.create")[0]?.opencodeSessionId).not.toBe(
      right.of("message.create")[0]?.opencodeSessionId,
    )
    for (const frame of left.frames) expect(frame).toMatchObject({ channelId: "left" })
    for (const frame of right.frames) expect(frame).toMatchObject({ channelId: "right" })
    const senders = c.agent.frames.flatMap((frame) =>
      frame.type === "message.part.text-delta" && ["l1", "r2"].includes(frame.messageId ?? "")
        ? [frame.messageId]
        : [],
    )
    const turns = senders.filter((sender, index) => sender !== senders[index - 1])
    expect(turns).toEqual(["l1", "r2", "l1", "r2"])
  })

  test("a steering prompt ends the first turn where its own answer begins", async () => {
    const command = "until [ -e .git/steered ]; do sleep 0.05; done; echo done"
    const slow = tool("bash", { command, description: "wait" })
    c.model.on("steered", [reply(text("Working. "), slow)])
    c.model.on("steering", [text("Changed course.")])
    const at = { channelType: "web", channelId: "steer" }
    c.say("s1", "@@steered@@", at)
    await c.agent.frame(
      "message.part.tool-update",
      (frame) => frame.messageId === "s1" && frame.status === "running",
    )
    c.say("s2", "now @@steering@@", { ...at, steer: true })
    // The work of the first turn is over when the second prompt has joined it. A frame comes before the prompt is posted.
    await untilPromptIsStored(c.runner, PASSWORD, "now @@steering@@")
    await Bun.write(join(c.runner.sandbox.workDir, ".git/steered"), "")
    const second = await c.ended("s2")
    const first = await c.agent.frame("message.finalize", ({ messageId }) => messageId === "s1")
    expect(first).toMatchObject({ reason: "end_turn", finalText: "Working. " })
    expect(second.final).toMatchObject({ reason: "end_turn", finalText: "Changed course." })
    expect(
      c.agent.frames.filter((f) => f.type === "complete" && /^s[12]$/.test(f.messageId ?? "")),
    ).toHaveLength(2)
  })
})

test("an idle runner sends no frames except replies, and no earlier frame was malformed", async () => {
  const before = c.agent.frames.length
  const requestIds = ["idle-1", "idle-2", "idle-3"]
  for (const requestId of requestIds) {
    c.agent.say({ type: "diff", requestId })
    await c.agent.frame("diff", (frame) => frame.requestId === requestId, before)
  }
  const since = withoutReports(c.agent.frames.slice(before))
  expect(since.map(({ type }) => type)).toEqual(requestIds.map(() => "diff"))
  expect(c.agent.problems).toEqual([])
})
