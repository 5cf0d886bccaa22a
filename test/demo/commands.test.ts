/** The demo model's replies, as pure functions of the conversation. */
import { describe, expect, test } from "bun:test"
import type { Reply } from "../../src/demo/reply.ts"
import type { Conversation } from "../../src/demo/request.ts"
import { replyTo } from "../../src/demo/commands.ts"

const SYSTEM = {
  role: "system",
  content:
    "You are opencode.\n<env>\n  Working directory: /work space/project\n  Platform: linux\n</env>",
}
const ALL_TOOLS = ["bash", "write", "question", "todowrite"]

/** A conversation that ends with the prompt and the results of the tools called since. */
const conversation = (
  prompt: string,
  results: readonly string[] = [],
  tools = ALL_TOOLS,
): Conversation => ({
  messages: [
    SYSTEM,
    { role: "user", content: "run: echo an earlier turn" },
    { role: "tool", content: "an earlier result" },
    { role: "assistant", content: "done" },
    { role: "user", content: prompt },
    ...results.flatMap((content) => [
      { role: "assistant", content: null },
      { role: "tool", content },
    ]),
  ],
  tools: tools.map((name) => ({ function: { name } })),
})

function textIn(reply: Reply): string {
  if ("status" in reply) throw new Error("expected a streamed reply")
  return reply.flatMap((step) => (step.type === "text" ? step.text : [])).join("")
}

function callsIn(reply: Reply) {
  if ("status" in reply) throw new Error("expected a streamed reply")
  return reply.flatMap((step) => (step.type === "tools" ? step.calls : []))
}

const internalRequest = (system: string, prompt: string): Conversation => ({
  messages: [
    { role: "system", content: system },
    { role: "user", content: prompt },
  ],
  tools: [],
})
const title = (prompt: string) =>
  textIn(
    replyTo(internalRequest("You are a title generator. You output ONLY a thread title.", prompt)),
  )

describe("plain text", () => {
  test("plain text is echoed without its author line, with the list of commands", () => {
    const shown = textIn(replyTo(conversation("[User: Ada <ada@example.org>]\n\nhello\nworld")))
    expect(shown).toContain("> hello\n> world")
    expect(shown).not.toContain("Ada")
    expect(shown).toContain("scripted demo model, not an LLM")
    for (const command of ["run: CMD", "write: FILE", "ask", "plan", "think", "fail"])
      expect(shown).toContain(`\`${command}\``)
  })

  test("a reply to plain text is streamed in small chunks", () => {
    const length = textIn(replyTo(conversation("hello"))).length
    expect(replyTo(conversation("hello"))).toMatchObject([
      { type: "text", chunks: Math.ceil(length / 12), delayMs: 15 },
    ])
  })

  test("text that only resembles a command is plain text", () => {
    for (const prompt of ["asking", "please run: ls", "run:", "planet", "failure", "  think"])
      expect(textIn(replyTo(conversation(prompt)))).toContain("You said")
  })

  test("a command is found in a message with text and image parts", () => {
    const content = [{ type: "image_url" }, { type: "text", text: "run: ls" }]
    const messages = [{ role: "user", content }]
    expect(callsIn(replyTo({ ...conversation(""), messages }))).toHaveLength(1)
  })
})

describe("a command", () => {
  test("a command may start any line, and the last command wins", () => {
    const calls = callsIn(replyTo(conversation("[User: Ada]\nplan\nRun: ls -la \nthanks")))
    expect(calls).toMatchObject([{ name: "bash", args: { command: "ls -la" } }])
  })

  test("a command in a system reminder of OpenCode is ignored", () => {
    const shown = textIn(
      replyTo(conversation("hi\n<system-reminder>\nPlan mode is active.\n</system-reminder>")),
    )
    expect(shown).toContain("> hi\n\n")
  })

  test("a command whose tool is off gets a text reply", () => {
    for (const prompt of ["run: ls", "write: a.txt", "ask", "plan"])
      expect(textIn(replyTo(conversation(prompt, [], ["grep"])))).toContain("is off")
  })

  test("`run:` quotes the result of bash", () => {
    const shown = textIn(replyTo(conversation("run: ls", ["a.txt\nb.txt\n"])))
    expect(shown).toContain("> a.txt\n> b.txt")
    expect(shown).not.toContain("earlier")
  })

  test("`write:` calls the tool with an absolute path", () => {
    const paths = { "notes/a.md": "/work space/project/notes/a.md", "/tmp/a.md": "/tmp/a.md" }
    for (const [given, filePath] of Object.entries(paths))
      expect(callsIn(replyTo(conversation(`write: ${given}`)))).toMatchObject([
        { args: { filePath } },
      ])
  })

  test("`write:` uses the lines below as the content", () => {
    const [call] = callsIn(replyTo(conversation("write: a.md\n# A\r\n\n  b\n\n")))
    expect(call).toMatchObject({ name: "write", args: { content: "# A\n\n  b\n" } })
  })

  test("`ask` asks one question with three options, then repeats the answer", () => {
    const [call] = callsIn(replyTo(conversation("ask")))
    const options = [{ label: "Sandpiper" }, { label: "Heron" }, { label: "Swift" }]
    expect(call).toMatchObject({ name: "question", args: { questions: [{ options }] } })
    expect(textIn(replyTo(conversation("ask", ["Heron"])))).toContain("> Heron")
  })

  test("`plan` ticks off one todo with each call", () => {
    const done = ["", "", "", ""].map((_, calls) => {
      const [call] = callsIn(replyTo(conversation("plan", Array<string>(calls).fill("ok"))))
      return JSON.stringify(call?.args).split("completed").length - 1
    })
    expect(done).toEqual([0, 1, 2, 3])
    expect(textIn(replyTo(conversation("plan", ["ok", "ok", "ok", "ok"])))).toContain("ticked off")
  })

  test("`think` sends reasoning before text", () => {
    expect(replyTo(conversation("think"))).toMatchObject([{ type: "reasoning" }, { type: "text" }])
  })

  test("`fail` returns an error that is not retried", () => {
    const error = { message: "the demo model was asked to fail" }
    expect(replyTo(conversation("fail"))).toMatchObject({ status: 400, body: { error } })
  })
})

describe("OpenCode's internal requests", () => {
  test("a title is a short line of the user's text", () => {
    expect(title("[User: Ada]\nrun: ls\nand more")).toBe("run: ls and more")
    expect(title("one two three four five six seven eight")).toBe(
      "one two three four five six seven",
    )
    expect(title("🐦".repeat(60)).length).toBeLessThanOrEqual(50)
    expect(title("🐦".repeat(60)).isWellFormed()).toBe(true)
    expect(title("[User: Ada]\n")).toBe("Demo conversation")
  })

  test("a summary request runs no command that it quotes", () => {
    const system = "You are a context summarization agent. You are given a conversation."
    expect(
      textIn(replyTo(internalRequest(system, "<conversation>\n[User]: hi\nfail\n</conversation>"))),
    ).toContain("cannot summarise")
  })
})
