/** Questions, permissions and sub-agents during a turn of the real OpenCode. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { type Conversation, startConversation } from "../kit/conversation.ts"
import { reply, text, tool } from "../kit/model.ts"

let c: Conversation
beforeAll(async () => {
  c = await startConversation({ SANDPIPER_PERMISSIONS: "relay" })
})
afterAll(() => c.stop())

const on = (channelId: string) => ({ channelType: "test", channelId })
const options = (...labels: readonly string[]) =>
  labels.map((label) => ({ label, description: label }))

describe("a question", () => {
  test("a question is sent with its options and the model receives the answer", async () => {
    const questions = [
      { question: "Which color?", header: "Color", options: options("Red", "Blue") },
    ]
    c.model.on("color", [tool("question", { questions }), text("Blue it is")])
    c.say("q1", "@@color@@", on("q1"))
    const asked = await c.agent.frame("question", ({ messageId }) => messageId === "q1")
    expect(asked).toMatchObject({ text: "Which color?", options: ["Red", "Blue"] })
    c.agent.say({ type: "answer", questionId: asked.questionId, answer: "Blue" })
    const answer = await c.ended("q1")
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: "Blue it is" })
    expect(JSON.stringify(c.model.requests.at(-1)?.messages)).toContain("Blue")
  })

  test("a request with two questions continues after both answers, one of them with several choices", async () => {
    const questions = [
      { question: "Sure?", header: "S", options: options("Yes", "No") },
      { question: "Which ones?", header: "W", options: options("A", "B", "C"), multiple: true },
    ]
    c.model.on("several", [tool("question", { questions }), text("thanks")])
    c.say("q2", "@@several@@", on("q2"))
    const first = await c.agent.frame("question", (frame) => frame.text === "Sure?")
    const second = await c.agent.frame("question", (frame) => frame.text === "Which ones?")
    expect(second.multiple).toBe(true)
    c.agent.say({ type: "answer", questionId: second.questionId, answer: "A, C" })
    c.agent.say({ type: "answer", questionId: first.questionId, answer: true })
    expect((await c.ended("q2")).final).toMatchObject({ finalText: "thanks" })
    const received = JSON.stringify(c.model.requests.at(-1)?.messages)
    expect(received).toContain("A, C")
    expect(received).toContain("Yes")
  })

  test("an expired question is rejected and the turn ends once", async () => {
    const questions = [{ question: "Still there?", header: "H", options: options("Yes") }]
    c.model.on("expired", [tool("question", { questions })])
    c.say("q3", "@@expired@@", on("q3"))
    const { questionId } = await c.agent.frame("question", (frame) => frame.messageId === "q3")
    c.agent.say({ type: "answer", questionId, answer: "__expired__" })
    const answer = await c.ended("q3")
    expect(answer.of("message.part.tool-update").at(-1)).toMatchObject({ status: "error" })
    expect(answer.of("complete")).toHaveLength(1)
  })
})

describe("a permission", () => {
  const touch = (file: string) => tool("bash", { command: `touch ${file}`, description: "touch" })
  const exists = (file: string) => Bun.file(join(c.runner.sandbox.workDir, file)).exists()

  test("a tool that needs permission does not run before the session agent grants it", async () => {
    c.model.on("may-i", [touch("granted"), text("done")])
    c.say("p1", "@@may-i@@", on("p1"))
    const asked = await c.agent.frame("permission", ({ messageId }) => messageId === "p1")
    expect(asked.patterns).toEqual(["touch granted"])
    c.agent.say({ type: "permission-reply", permissionId: "per_unknown", reply: "always" })
    await c.agent.until(
      () => c.runner.log.some((line) => line.includes("permission-reply.unknown")),
      "log line",
    )
    expect(await exists("granted")).toBe(false)
    c.agent.say({ type: "permission-reply", permissionId: asked.permissionId, reply: "once" })
    expect((await c.ended("p1")).final).toMatchObject({ finalText: "done" })
    expect(await exists("granted")).toBe(true)
  })

  test("a tool whose permission is rejected does not run", async () => {
    c.model.on("may-i-not", [touch("refused"), text("all right")])
    c.say("p2", "@@may-i-not@@", on("p2"))
    const { permissionId } = await c.agent.frame("permission", (frame) => frame.messageId === "p2")
    c.agent.say({ type: "permission-reply", permissionId, reply: "reject" })
    const answer = await c.ended("p2")
    expect(answer.of("message.part.tool-update").at(-1)).toMatchObject({ status: "error" })
    expect(await exists("refused")).toBe(false)
  })
})

describe("a sub-agent", () => {
  const task = (prompt: string) =>
    tool("task", { description: "a task", prompt, subagent_type: "general" })

  test("tool calls and words of a sub-agent carry its own session id, and the answer has none of them", async () => {
    const readme = { filePath: join(c.runner.sandbox.workDir, "README.md") }
    c.model.on("child-work", [tool("read", readme), text("the child's result")])
    c.model.on("parent-work", [reply(text("I delegate. "), task("@@child-work@@")), text("Done.")])
    const answer = await c.ask("c1", "@@parent-work@@", on("c1"))
    const updates = answer.of("message.part.tool-update")
    const own = updates.filter(({ childSessionId }) => childSessionId === undefined)
    const childs = updates.filter(({ childSessionId }) => childSessionId !== undefined)
    expect(new Set(own.map(({ toolName }) => toolName))).toEqual(new Set(["task"]))
    expect(childs.at(-1)).toMatchObject({ toolName: "read", status: "completed" })
    expect(JSON.stringify(childs.at(-1)?.result)).toContain("hello")
    expect(answer.text).toBe("I delegate. Done.")
    expect(answer.final).toMatchObject({ finalText: "I delegate. Done." })
    const words = answer.of("message.part.text-delta").filter((delta) => delta.childSessionId)
    expect(words.map(({ delta }) => delta).join("")).toBe("the child's result")
    expect(new Set(words.map(({ childSessionId }) => childSessionId))).toEqual(
      new Set(childs.map(({ childSessionId }) => childSessionId)),
    )
    expect(answer.of("complete")).toHaveLength(1)
    expect(JSON.stringify(own.at(-1)?.result)).toContain("the child's result")
  })

  test("a permission request of a sub-agent is sent as part of its parent's turn", async () => {
    const touch = { command: "touch by-child", description: "touch" }
    c.model.on("child-asks", [tool("bash", touch), text("touched")])
    c.model.on("parent-of-asker", [task("@@child-asks@@"), text("ok")])
    c.say("c2", "@@parent-of-asker@@", on("c2"))
    const { permissionId } = await c.agent.frame("permission", (frame) => frame.messageId === "c2")
    c.agent.say({ type: "permission-reply", permissionId, reply: "once" })
    expect((await c.ended("c2")).final).toMatchObject({ reason: "end_turn", finalText: "ok" })
  })
})
