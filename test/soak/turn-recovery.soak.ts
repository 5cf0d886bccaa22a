/** Turns during which the event stream is cut or OpenCode dies. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { answerOf, type Conversation, startConversation } from "../kit/conversation.ts"
import { reply, text, tool, waitFor } from "../kit/model.ts"
import { killOpenCode } from "../kit/opencode-processes.ts"
import { untilTrue } from "../kit/until-true.ts"

const on = (channelId: string) => ({ channelType: "test", channelId })

describe("turns with a cut event stream", () => {
  let c: Conversation
  const originalFetch = globalThis.fetch
  let streams: AbortController[] = []

  /** Cuts the runner's event subscription like a network failure. */
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

  test("a cut in the middle of a text neither loses nor repeats text", async () => {
    const expected = Array.from({ length: 60 }, (_, n) => `w${n} `).join("")
    const half = expected.length / 2
    const cutTwice = Promise.withResolvers<void>()
    const pace = { chunks: 30, delayMs: 25 }
    c.model.on("cut-text", [
      reply(
        text(expected.slice(0, half), pace),
        waitFor(cutTwice.promise),
        text(expected.slice(half), pace),
      ),
    ])
    c.say("s1", "@@cut-text@@", on("s1"))
    const length = () => answerOf(c.agent, "s1").text.length
    await c.agent.until(() => length() >= expected.length / 10, "some text")
    cutStreams()
    await untilTrue(() => streams.length > 0, "the next stream")
    cutStreams()
    cutTwice.resolve()
    await c.agent.until(() => length() > half, "text of the second half")
    cutStreams()
    const answer = await c.ended("s1")
    expect(answer.text).toBe(expected)
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: expected })
    expect(answer.of("message.finalize")).toHaveLength(1)
    expect(answer.of("complete")).toHaveLength(1)
  })

  test("after a cut while a tool runs, the end of the tool and the text after it are sent", async () => {
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

  test("a question that is asked during a cut is still sent", async () => {
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

  test("a turn ends at once when OpenCode dies, and the next prompt runs on the next OpenCode", async () => {
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
