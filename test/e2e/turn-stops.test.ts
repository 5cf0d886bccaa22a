/** Abort in every phase of a turn: the turn ends, the abort is confirmed once, and the next prompt completes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Conversation, startConversation } from "../kit/conversation.ts"
import { hang, httpError, overflow, reply, text, tool } from "../kit/model.ts"

let c: Conversation
beforeAll(async () => {
  c = await startConversation()
})
afterAll(() => c.stop())

const on = (channelId: string) => ({ channelType: "test", channelId })

const abort = async (channelId: string) => {
  const from = c.agent.frames.length
  c.agent.say({ type: "abort", ...on(channelId) })
  await c.agent.frame("aborted", (frame) => frame.channelId === channelId, from)
}

const nextPromptCompletes = async (channelId: string) => {
  c.model.on(`next-${channelId}`, [text("here I am")])
  const answer = await c.ask(`next-${channelId}`, `@@next-${channelId}@@`, on(channelId))
  expect(answer.final).toMatchObject({ reason: "end_turn", finalText: "here I am" })
}

describe("an abort", () => {
  test("an abort right after the prompt ends the turn", async () => {
    c.model.on("early", [text("too late ".repeat(50), { chunks: 50, delayMs: 50 })])
    c.say("early", "@@early@@", on("early"))
    await abort("early")
    const answer = await c.ended("early")
    expect(answer.of("complete")).toHaveLength(1)
    await nextPromptCompletes("early")
  })

  test("an abort before the first output of the model ends the turn without an error", async () => {
    c.model.on("mute", [hang()])
    c.say("mute", "@@mute@@", on("mute"))
    await c.agent.until(
      () => c.model.requests.some((request) => JSON.stringify(request).includes("@@mute@@")),
      "model call",
    )
    await abort("mute")
    const answer = await c.ended("mute")
    expect(answer.of("complete")).toHaveLength(1)
    expect(answer.of("error")).toEqual([])
    await nextPromptCompletes("mute")
  })

  test("an abort during compaction ends the turn", async () => {
    // The compaction call contains only the earlier messages, so the script of the earlier prompt answers it.
    c.model.on("history", [text("some history"), hang()])
    await c.ask("history", "@@history@@", on("shortened"))
    c.model.on("too-long", [overflow()])
    const asked = c.model.requests.length
    c.say("too-long", "@@too-long@@", on("shortened"))
    await c.agent.until(() => c.model.requests.length === asked + 2, "the compaction call")
    await abort("shortened")
    const answer = await c.ended("too-long")
    expect(answer.of("complete")).toHaveLength(1)
    await nextPromptCompletes("shortened")
  })

  test("an abort in the middle of a text keeps the text sent so far", async () => {
    c.model.on("long", [text("word ".repeat(100), { chunks: 100, delayMs: 40 })])
    c.say("long", "@@long@@", on("long"))
    await c.agent.frame("message.part.text-delta", ({ messageId }) => messageId === "long")
    await abort("long")
    const answer = await c.ended("long")
    expect(answer.final).toMatchObject({ reason: "canceled", finalText: answer.text })
    expect(answer.text.length).toBeLessThan(500)
    await nextPromptCompletes("long")
  })

  test("an abort while a tool runs cancels the turn", async () => {
    const slow = tool("bash", { command: "sleep 30", description: "wait" })
    c.model.on("tool", [reply(text("wait "), slow)])
    c.say("tool", "@@tool@@", on("tool"))
    await c.agent.frame(
      "message.part.tool-update",
      ({ messageId, status }) => messageId === "tool" && status === "running",
    )
    await abort("tool")
    const answer = await c.ended("tool")
    expect(answer.final).toMatchObject({ reason: "canceled" })
    await nextPromptCompletes("tool")
  })

  test("an abort while a question is open rejects the question and later answers are ignored", async () => {
    const questions = [
      { question: "Which?", header: "W", options: [{ label: "A", description: "a" }] },
    ]
    c.model.on("asking", [tool("question", { questions })])
    c.say("asking", "@@asking@@", on("asking"))
    const { questionId } = await c.agent.frame("question", (frame) => frame.messageId === "asking")
    await abort("asking")
    const answer = await c.ended("asking")
    expect(answer.final).toMatchObject({ reason: "canceled" })
    c.agent.say({ type: "answer", questionId, answer: "A" })
    await c.agent.until(
      () => c.runner.log.some((line) => line.includes("answer.unknown-question")),
      "log line",
    )
    await nextPromptCompletes("asking")
  })

  test("an abort ends the turn while OpenCode waits to retry the provider", async () => {
    c.model.on("waiting", [httpError(429, { message: "later", retryAfterSeconds: 600 })])
    c.say("waiting", "@@waiting@@", on("waiting"))
    await c.agent.frame("retry", ({ messageId }) => messageId === "waiting")
    await abort("waiting")
    const answer = await c.ended("waiting")
    expect(answer.final).toMatchObject({ reason: "canceled" })
    await nextPromptCompletes("waiting")
  })

  test("an abort completes every queued prompt of the channel once", async () => {
    c.model.on("busy", [text("a b c d ".repeat(40), { chunks: 40, delayMs: 50 })])
    c.say("busy", "@@busy@@", on("queue"))
    c.say("waits1", "@@never@@", on("queue"))
    c.say("waits2", "@@never@@", on("queue"))
    await c.agent.frame("message.part.text-delta", ({ messageId }) => messageId === "busy")
    await abort("queue")
    for (const id of ["busy", "waits1", "waits2"]) {
      expect((await c.ended(id)).of("complete")).toHaveLength(1)
    }
    expect(JSON.stringify(c.model.requests)).not.toContain("@@never@@")
    await nextPromptCompletes("queue")
  })

  test("an abort of one channel does not affect another channel", async () => {
    c.model.on("mine", [text("mine ".repeat(40), { chunks: 40, delayMs: 40 })])
    c.model.on("yours", [text("yours ".repeat(40), { chunks: 40, delayMs: 40 })])
    c.say("mine", "@@mine@@", on("mine"))
    c.say("yours", "@@yours@@", on("yours"))
    for (const id of ["mine", "yours"]) {
      await c.agent.frame("message.part.text-delta", ({ messageId }) => messageId === id)
    }
    await abort("mine")
    expect((await c.ended("mine")).final).toMatchObject({ reason: "canceled" })
    const yours = await c.ended("yours")
    expect(yours.final).toMatchObject({ reason: "end_turn", finalText: "yours ".repeat(40) })
  })

  test("an abort without a channel cancels all turns and is confirmed once", async () => {
    for (const id of ["all1", "all2"]) {
      c.model.on(id, [text("on and on ".repeat(40), { chunks: 40, delayMs: 50 })])
      c.say(id, `@@${id}@@`, on(id))
    }
    for (const id of ["all1", "all2"]) {
      await c.agent.frame("message.part.text-delta", ({ messageId }) => messageId === id)
    }
    const from = c.agent.frames.length
    c.agent.say({ type: "abort" })
    await c.agent.frame("aborted", undefined, from)
    for (const id of ["all1", "all2"]) {
      expect((await c.ended(id)).final).toMatchObject({ reason: "canceled" })
    }
    expect(c.agent.frames.slice(from).filter(({ type }) => type === "aborted")).toHaveLength(1)
  })

  test("an abort of an unknown channel is confirmed", async () => {
    await abort("unknown")
  })
})
