/**
 * Commands of the session agent other than prompts: each gets exactly one reply, also when there is nothing to do. The tests share one
 * runner, model and OpenCode; each has its own ids, and those of turns their own channels and files. A diff shows what was changed in
 * all conversations: its tests and those of reviews have runners whose changes they know.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { rename } from "node:fs/promises"
import { join } from "node:path"
import { execa } from "execa"
import { type Conversation, startConversation, withoutReports } from "../kit/conversation.ts"
import { hang, text, tool } from "../kit/model.ts"

let c: Conversation
beforeAll(async () => {
  c = await startConversation()
})
afterEach(() => c.agent.settle())
afterAll(() => c.stop())

const on = (channelId: string) => ({ channelType: "test", channelId })
const path = (file: string, { runner } = c) => join(runner.sandbox.workDir, file)
const write = (file: string, content: string, of = c) =>
  tool("write", { filePath: path(file, of), content })

/** Sends the frame, waits for its reply and checks that there is only one. */
const answered = async <Type extends "diff" | "review-result" | "command-result" | "session-reset">(
  type: Type,
  frame: Parameters<Conversation["agent"]["say"]>[0] & { requestId: string },
  { agent } = c,
) => {
  agent.say(frame)
  await agent.until(() => answers(type, frame.requestId, agent).length > 0, type)
  const all = answers(type, frame.requestId, agent)
  expect(all).toHaveLength(1)
  return all[0] as Extract<(typeof agent.frames)[number], { type: Type }>
}
const answers = (type: string, requestId: string, { frames } = c.agent) =>
  frames.filter(
    (frame) => frame.type === type && "requestId" in frame && frame.requestId === requestId,
  )

test("a diff shows each changed file once as a unified patch", async () => {
  const own = await startConversation()
  try {
    own.model.on("change", [
      write("new.txt", "one\n", own),
      write("README.md", "hello\nmore\n", own),
      text("ok"),
    ])
    await own.ask("ch1", "@@change@@", on("diff"))
    own.model.on("change-again", [write("new.txt", "one\ntwo\n", own), text("ok")])
    await own.ask("ch2", "@@change-again@@", on("diff"))
    const { data } = await answered("diff", { type: "diff", requestId: "d1" }, own)
    const files = data.files.toSorted((a, b) => a.path.localeCompare(b.path))
    expect(files.map((file) => [file.path, file.status])).toEqual([
      ["new.txt", "added"],
      ["README.md", "modified"],
    ])
    expect(files[0]?.diff).toContain("+one")
    expect(files[0]?.diff).toContain("+two")
    expect(files[1]?.diff).toMatch(/^@@ .* @@$/m)
  } finally {
    await own.stop()
  }
})

describe("a workspace in which the agent has changed nothing", () => {
  // A second runner for these tests. After each its workspace is as it was committed.
  let own: Conversation
  beforeAll(async () => {
    own = await startConversation()
  })
  afterEach(async () => {
    await own.agent.settle()
    const { workDir } = own.runner.sandbox
    await execa("git", ["clean", "-fdq"], { cwd: workDir })
    await execa("git", ["checkout", "-q", "."], { cwd: workDir })
  })
  afterAll(() => own.stop())

  const findings = {
    overallSummary: "Small and sound.",
    files: [
      {
        path: "new.txt",
        summary: "A new file.",
        findings: [
          {
            lineStart: 1,
            severity: "nitpick",
            category: "style",
            title: "One",
            description: "Spell it 1.",
          },
        ],
      },
    ],
  }
  /** A person changes two files. The name of a script in one of them is in the prompt of the review. */
  const change = async (script: string) => {
    await Bun.write(path("new.txt", own), `one\n@@${script}@@\n`)
    await Bun.write(path("README.md", own), "hello\nmore\n")
  }

  test("a diff is empty when nothing has changed", async () => {
    const { data, error } = await answered("diff", { type: "diff", requestId: "d0" }, own)
    expect(data.files).toEqual([])
    expect(error).toBeUndefined()
  })

  test("a review is retried when the model's reply cannot be parsed and returns the findings", async () => {
    await change("unread")
    own.model.on("unread", [
      text("Looks good to me!"),
      text(`Here:\n\`\`\`json\n${JSON.stringify(findings)}\n\`\`\``),
    ])
    const result = await answered("review-result", { type: "review", requestId: "v1" }, own)
    expect(result.error).toBeUndefined()
    expect(result.data).toMatchObject({
      overallSummary: "Small and sound.",
      stats: { critical: 0, warning: 0, suggestion: 0, nitpick: 1 },
      files: [
        { path: "new.txt", linesAdded: 2, findings: [{ id: "1.1", file: "new.txt", lineEnd: 1 }] },
      ],
    })
    expect(result.diffFiles?.length).toBe(2)
  })

  test("a review that never parses is an error and sends no other frame", async () => {
    await change("never-read")
    const from = own.agent.frames.length
    const result = await answered("review-result", { type: "review", requestId: "v2" }, own)
    expect(result.error).toContain("could not be parsed")
    // The reply to a later command: what the review sends has come before it.
    await answered("diff", { type: "diff", requestId: "after-v2" }, own)
    const types = withoutReports(own.agent.frames.slice(from)).map(({ type }) => type)
    expect(types).toEqual(["review-result", "diff"])
  })
})

describe("revert", () => {
  test("a revert removes a prompt and all later ones and restores the files", async () => {
    c.model.on("r-one", [write("kept.txt", "1\n"), text("one")])
    c.model.on("r-two", [write("gone.txt", "2\n"), text("two")])
    c.model.on("r-three", [text("three")])
    for (const [id, name] of [
      ["rv1", "r-one"],
      ["rv2", "r-two"],
      ["rv3", "r-three"],
    ] as const) {
      await c.ask(id, `@@${name}@@`, on("revert"))
    }
    const from = c.agent.frames.length
    c.agent.say({ type: "revert", messageId: "rv2" })
    const { messageIds, error } = await c.agent.frame("reverted", undefined, from)
    expect(error).toBeUndefined()
    expect(messageIds).toEqual(["rv2", "rv3"])
    expect(await Bun.file(path("kept.txt")).exists()).toBe(true)
    expect(await Bun.file(path("gone.txt")).exists()).toBe(false)
    c.model.on("r-four", [text("four")])
    await c.ask("rv4", "@@r-four@@", on("revert"))
    const received = JSON.stringify(c.model.requests.at(-1)?.messages)
    expect(received).toContain("@@r-one@@")
    expect(received).not.toContain("@@r-two@@")
  })

  test("a revert whose snapshots are lost is refused and deletes no file, also as undo", async () => {
    const data = join(c.runner.sandbox.stateDir, "session/opencode/xdg/data/opencode")
    c.model.on("l-one", [write("lost.txt", "1\n"), text("one")])
    c.model.on("l-two", [write("lost.txt", "2\n"), text("two")])
    await c.ask("l1", "@@l-one@@", on("lost"))
    await c.ask("l2", "@@l-two@@", on("lost"))
    await rename(join(data, "snapshot"), join(data, "snapshot-gone"))
    try {
      const from = c.agent.frames.length
      c.agent.say({ type: "revert", messageId: "l2" })
      const { messageIds, error } = await c.agent.frame("reverted", undefined, from)
      expect(messageIds).toEqual([])
      expect(error).toContain("snapshots of the files are missing")
      const undone = await answered("command-result", {
        type: "opencode-command",
        command: "undo",
        requestId: "l3",
        ...on("lost"),
      })
      expect(undone.error).toContain("snapshots of the files are missing")
      expect(await Bun.file(path("lost.txt")).text()).toBe("2\n")
    } finally {
      await rename(join(data, "snapshot-gone"), join(data, "snapshot"))
    }
    const from = c.agent.frames.length
    c.agent.say({ type: "revert", messageId: "l2" })
    expect(await c.agent.frame("reverted", undefined, from)).toMatchObject({ messageIds: ["l2"] })
    expect(await Bun.file(path("lost.txt")).text()).toBe("1\n")
  })

  test("a revert of an unknown message replies with an empty list", async () => {
    const from = c.agent.frames.length
    c.agent.say({ type: "revert", messageId: "never-said" })
    const { messageIds } = await c.agent.frame("reverted", undefined, from)
    expect(messageIds).toEqual([])
  })
})

describe("opencode-command", () => {
  test("undo reverts the last prompt and redo restores it", async () => {
    c.model.on("u-one", [write("undone.txt", "x\n"), text("made")])
    await c.ask("un1", "@@u-one@@", on("undo"))
    const undo = { type: "opencode-command", command: "undo", ...on("undo") } as const
    expect((await answered("command-result", { ...undo, requestId: "k1" })).error).toBeUndefined()
    expect(await Bun.file(path("undone.txt")).exists()).toBe(false)
    const again = await answered("command-result", { ...undo, requestId: "k1b" })
    expect(again.error).toBe("there is nothing to undo")
    const redo = { ...undo, command: "redo", requestId: "k2" }
    expect((await answered("command-result", redo)).error).toBeUndefined()
    expect(await Bun.file(path("undone.txt")).exists()).toBe(true)
    const twice = await answered("command-result", { ...redo, requestId: "k3" })
    expect(twice.error).toBe("there is nothing to redo")
  })

  test("compact replaces the conversation by a summary that the next prompt continues from", async () => {
    c.model.on("cp-one", [text("a long story"), text("summary of it")])
    await c.ask("cp1", "@@cp-one@@", on("compact"))
    const compact = {
      type: "opencode-command",
      command: "compact",
      ...on("compact"),
      requestId: "k4",
    } as const
    expect((await answered("command-result", compact)).error).toBeUndefined()
    c.model.on("cp-two", [text("went on")])
    const next = await c.ask("cp2", "@@cp-two@@", on("compact"))
    expect(next.final).toMatchObject({ finalText: "went on" })
    expect(JSON.stringify(c.model.requests.at(-1)?.messages)).toContain("summary of it")
  })

  test("an abort stops a compaction and the next prompt completes", async () => {
    c.model.on("cp-slow", [text("a longer story"), hang()])
    await c.ask("cp3", "@@cp-slow@@", on("slow"))
    const asked = c.model.requests.length
    const compact = { type: "opencode-command", command: "compact", requestId: "k4b" } as const
    c.agent.say({ ...compact, ...on("slow") })
    await c.agent.until(() => c.model.requests.length > asked, "the compaction call")
    c.agent.say({ type: "abort", ...on("slow") })
    await c.agent.frame("aborted", ({ channelId }) => channelId === "slow")
    expect(answers("command-result", "k4b")).toMatchObject([{ error: "stopped by the user" }])
    c.model.on("cp-after", [text("went on")])
    const next = await c.ask("cp4", "@@cp-after@@", on("slow"))
    expect(next.final).toMatchObject({ reason: "end_turn", finalText: "went on" })
  })

  test("any other command runs as a turn in OpenCode and its text is the result", async () => {
    c.model.on(/AGENTS\.md/, [text("The file is written.")])
    const command = {
      type: "opencode-command",
      command: "/init",
      ...on("command"),
      requestId: "k5",
    } as const
    const { result, error } = await answered("command-result", command)
    expect(error).toBeUndefined()
    expect(result).toBe("The file is written.")
    const frames = c.agent.frames.filter(
      (frame) => "messageId" in frame && frame.messageId === "k5",
    )
    const types = frames.map(({ type }) => type)
    expect(types.slice(-3)).toEqual(["message.finalize", "complete", "agentStatus"])
  })

  test("an unknown command returns OpenCode's error", async () => {
    const command = {
      type: "opencode-command",
      command: "nosuch",
      ...on("command"),
      requestId: "k6",
    } as const
    expect((await answered("command-result", command)).error).toContain("nosuch")
  })

  test("undo on a channel without a conversation is an error", async () => {
    const undo = {
      type: "opencode-command",
      command: "undo",
      ...on("empty"),
      requestId: "k7",
    } as const
    expect((await answered("command-result", undo)).error).toBe(
      "this channel has no conversation yet: send a prompt first",
    )
  })
})

test("new-session starts a new agent session for the channel", async () => {
  c.model.on("ns-one", [text("first")])
  const first = await c.ask("ns1", "@@ns-one@@", on("fresh"))
  const reset = { type: "new-session", ...on("fresh"), requestId: "n1" } as const
  expect(await answered("session-reset", reset)).toMatchObject(on("fresh"))
  c.model.on("ns-two", [text("second")])
  const second = await c.ask("ns2", "@@ns-two@@", on("fresh"))
  const sessionOf = (answer: typeof first) => answer.of("message.create")[0]?.opencodeSessionId
  expect(sessionOf(second)).not.toBe(sessionOf(first))
  expect(JSON.stringify(c.model.requests.at(-1)?.messages)).not.toContain("@@ns-one@@")
})

test("a prompt adopts the agent session it names, and a missing one is replaced by a new session", async () => {
  c.model.on("ad-open", [text("opened")])
  const opened = await c.ask("ad0", "@@ad-open@@", on("adopted"))
  const known = opened.of("message.create")[0]?.opencodeSessionId ?? ""
  expect(known).not.toBe("")
  c.model.on("ad-one", [text("adopted")])
  const adopted = await c.ask("ad1", "@@ad-one@@", { ...on("adopt"), opencodeSessionId: known })
  expect(adopted.of("message.create")[0]?.opencodeSessionId).toBe(known)
  c.model.on("ad-two", [text("made")])
  const made = await c.ask("ad2", "@@ad-two@@", { ...on("missing"), opencodeSessionId: "ses_gone" })
  expect(made.of("message.create")[0]?.opencodeSessionId).not.toBe("ses_gone")
  await c.agent.frame("channel-session-created", ({ channelKey }) => channelKey === "test:missing")
})

test("init is answered with the agent status", async () => {
  const from = c.agent.frames.length
  c.agent.say({ type: "init" })
  expect(await c.agent.frame("agentStatus", undefined, from)).toMatchObject({ status: "idle" })
})

test("an invalid workflow-execute and a tunnel-delete are both answered", async () => {
  const payload = { kind: "run", executionId: "e1", payload: {} } as const
  c.agent.say({ type: "workflow-execute", executionId: "e1", payload })
  const { envelope } = await c.agent.frame(
    "workflow-execution-result",
    ({ executionId }) => executionId === "e1",
  )
  expect(envelope).toMatchObject({ ok: false, status: "failed", executionId: "e1" })
  const from = c.agent.frames.length
  c.agent.say({ type: "tunnel-delete", name: "nosuch" })
  await c.agent.frame("tunnels", undefined, from)
})
