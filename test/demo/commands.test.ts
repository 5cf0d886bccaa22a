/** The answers of the demo model, as pure functions of the conversation. */
import { describe, expect, test } from "bun:test"
import type { Reply } from "../../src/demo/reply.ts"
import type { Conversation } from "../../src/demo/request.ts"
import { answer } from "../../src/demo/commands.ts"

const SYSTEM = {
  role: "system",
  content:
    "You are opencode.\n<env>\n  Working directory: /work space/project\n  Platform: linux\n</env>",
}
const ALL_TOOLS = ["bash", "write", "question", "todowrite"]

/** A user's prompt, and the results of the tools called since. */
const talk = (
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

function saidIn(reply: Reply): string {
  if ("status" in reply) throw new Error("refused")
  return reply.flatMap((step) => (step.type === "text" ? step.text : [])).join("")
}

function callsIn(reply: Reply) {
  if ("status" in reply) throw new Error("refused")
  return reply.flatMap((step) => (step.type === "tools" ? step.calls : []))
}

const chore = (system: string, prompt: string): Conversation => ({
  messages: [
    { role: "system", content: system },
    { role: "user", content: prompt },
  ],
  tools: [],
})
const title = (prompt: string) =>
  saidIn(answer(chore("You are a title generator. You output ONLY a thread title.", prompt)))

describe("plain text", () => {
  test("is echoed without its attribution, with the words to try", () => {
    const said = saidIn(answer(talk("[User: Ada <ada@example.org>]\n\nhello\nworld")))
    expect(said).toContain("> hello\n> world")
    expect(said).not.toContain("Ada")
    expect(said).toContain("scripted demo model, not an LLM")
    for (const word of ["run: CMD", "write: FILE", "ask", "plan", "think", "fail"])
      expect(said).toContain(`\`${word}\``)
  })

  test("is streamed in small pieces", () => {
    const length = saidIn(answer(talk("hello"))).length
    expect(answer(talk("hello"))).toMatchObject([
      { type: "text", chunks: Math.ceil(length / 12), delayMs: 15 },
    ])
  })

  test("that only resembles a word is plain text", () => {
    for (const prompt of ["asking", "please run: ls", "run:", "planet", "failure", "  think"])
      expect(saidIn(answer(talk(prompt)))).toContain("You said")
  })

  test("may come as parts beside an image", () => {
    const content = [{ type: "image_url" }, { type: "text", text: "run: ls" }]
    const messages = [{ role: "user", content }]
    expect(callsIn(answer({ ...talk(""), messages }))).toHaveLength(1)
  })
})

describe("a word", () => {
  test("counts at the start of any line, and the last one wins", () => {
    const calls = callsIn(answer(talk("[User: Ada]\nplan\nRun: ls -la \nthanks")))
    expect(calls).toMatchObject([{ name: "bash", args: { command: "ls -la" } }])
  })

  test("in a reminder of OpenCode's does not count", () => {
    const said = saidIn(
      answer(talk("hi\n<system-reminder>\nPlan mode is active.\n</system-reminder>")),
    )
    expect(said).toContain("> hi\n\n")
  })

  test("whose tool is off is answered in text", () => {
    for (const prompt of ["run: ls", "write: a.txt", "ask", "plan"])
      expect(saidIn(answer(talk(prompt, [], ["grep"])))).toContain("is off")
  })

  test("run: calls bash, then quotes the result", () => {
    const said = saidIn(answer(talk("run: ls", ["a.txt\nb.txt\n"])))
    expect(said).toContain("> a.txt\n> b.txt")
    expect(said).not.toContain("earlier")
  })

  test("write: names the file by its absolute path", () => {
    const paths = { "notes/a.md": "/work space/project/notes/a.md", "/tmp/a.md": "/tmp/a.md" }
    for (const [given, filePath] of Object.entries(paths))
      expect(callsIn(answer(talk(`write: ${given}`)))).toMatchObject([{ args: { filePath } }])
  })

  test("write: takes the lines below as the content", () => {
    const [call] = callsIn(answer(talk("write: a.md\n# A\r\n\n  b\n\n")))
    expect(call).toMatchObject({ name: "write", args: { content: "# A\n\n  b\n" } })
  })

  test("ask puts one question with three options, then repeats the answer", () => {
    const [call] = callsIn(answer(talk("ask")))
    const options = [{ label: "Sandpiper" }, { label: "Heron" }, { label: "Swift" }]
    expect(call).toMatchObject({ name: "question", args: { questions: [{ options }] } })
    expect(saidIn(answer(talk("ask", ["Heron"])))).toContain("> Heron")
  })

  test("plan ticks off one todo a call", () => {
    const done = ["", "", "", ""].map((_, calls) => {
      const [call] = callsIn(answer(talk("plan", Array<string>(calls).fill("ok"))))
      return JSON.stringify(call?.args).split("completed").length - 1
    })
    expect(done).toEqual([0, 1, 2, 3])
    expect(saidIn(answer(talk("plan", ["ok", "ok", "ok", "ok"])))).toContain("ticked off")
  })

  test("think reasons before it speaks", () => {
    expect(answer(talk("think"))).toMatchObject([{ type: "reasoning" }, { type: "text" }])
  })

  test("fail is refused in a way that is not worth a retry", () => {
    const error = { message: "the demo model was asked to fail" }
    expect(answer(talk("fail"))).toMatchObject({ status: 400, body: { error } })
  })
})

describe("OpenCode's own requests", () => {
  test("a title is a short line of the user's words", () => {
    expect(title("[User: Ada]\nrun: ls\nand more")).toBe("run: ls and more")
    expect(title("one two three four five six seven eight")).toBe(
      "one two three four five six seven",
    )
    expect(title("🐦".repeat(60)).length).toBeLessThanOrEqual(50)
    expect(title("🐦".repeat(60)).isWellFormed()).toBe(true)
    expect(title("[User: Ada]\n")).toBe("Demo conversation")
  })

  test("a summary is not given over to the words it quotes", () => {
    const system = "You are a context summarization agent. You are given a conversation."
    expect(
      saidIn(answer(chore(system, "<conversation>\n[User]: hi\nfail\n</conversation>"))),
    ).toContain("cannot summarise")
  })
})
