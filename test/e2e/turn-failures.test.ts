/** Provider errors: the turn ends with the provider's message, or the prompt goes to the next model. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Conversation, startConversation } from "../kit/conversation.ts"
import { cut, httpError, overflow, reply, streamError, text, tool, waitFor } from "../kit/model.ts"

let c: Conversation
beforeAll(async () => {
  c = await startConversation()
})
afterAll(() => c.stop())

/** One channel per test, so that no test waits for the turn of another. */
const on = (channelId: string) => ({ channelType: "test", channelId })
/** A connection that is cut when the text has reached the session agent: else OpenCode may see the cut before the text. */
const cutAfter = (words: string) => {
  const arrived = c.agent.frame("message.part.text-delta", ({ delta }) => delta === words)
  return reply(text(words), waitFor(arrived), cut())
}
const two = { modelPreferences: ["scripted/m1", "scripted/m2"] }

describe("a provider error without another model", () => {
  for (const status of [401, 402, 403]) {
    test(`a ${status} without another model ends the turn with the provider's message`, async () => {
      c.model.on(`plain-${status}`, [httpError(status, { message: `no to ${status}` })])
      const answer = await c.ask(`p${status}`, `@@plain-${status}@@`, on(`p${status}`))
      expect(JSON.stringify(answer.frames)).toContain(`no to ${status}`)
      expect(answer.of("complete")).toHaveLength(1)
      expect(answer.of("model-switched")).toEqual([])
    })
  }

  test("OpenCode retries after a 429 and the retry is reported", async () => {
    c.model.on("limited", [httpError(429, { message: "slow down" }), text("now it works")])
    const answer = await c.ask("limited", "@@limited@@", on("limited"))
    expect(answer.of("retry")).toMatchObject([{ attempt: 1, message: "slow down" }])
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: "now it works" })
  })

  test("OpenCode retries after a 500", async () => {
    c.model.on("broken", [httpError(500, { message: "oops" }), text("repaired")])
    const answer = await c.ask("broken", "@@broken@@", on("broken"))
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: "repaired" })
  })

  test("a wait of the provider that is longer than a turn may make no progress ends the turn at once", async () => {
    c.model.on("much-later", [httpError(503, { message: "not today", retryAfterSeconds: 600 })])
    const answer = await c.ask("much-later", "@@much-later@@", on("much-later"))
    expect(answer.of("retry")).toMatchObject([{ attempt: 1, message: "not today" }])
    expect(answer.final).toMatchObject({
      reason: "error",
      error: expect.stringMatching(/asks to wait \d+ s, longer than the 300 s .*not today/),
    })
  })

  test("an error inside a stream ends the turn with its words, and one with another model left passes the prompt on", async () => {
    const refused = reply(text("half"), streamError("this stream is not for you"))
    c.model.on("refused-stream", [refused])
    const alone = await c.ask("refused-stream", "@@refused-stream@@", on("refused-stream"))
    expect(alone.of("retry")).toEqual([])
    expect(alone.final).toMatchObject({
      reason: "error",
      error: expect.stringContaining("this stream is not for you"),
    })
    c.model.on("passed-stream", [refused, refused])
    const passed = await c.ask("passed-stream", "@@passed-stream@@", {
      ...on("passed-stream"),
      ...two,
    })
    expect(passed.of("model-switched")).toHaveLength(1)
    expect(passed.of("retry")).toEqual([])
    expect(passed.final).toMatchObject({ reason: "error" })
  })

  test("text of a cut connection is dropped and only the text of the second attempt counts", async () => {
    c.model.on("cut", [cutAfter("half an ans"), text("the whole answer")])
    const answer = await c.ask("cut", "@@cut@@", on("cut"))
    const dropped = answer.of("retry").flatMap(({ droppedParts }) => droppedParts ?? [])
    const kept = answer
      .of("message.part.text-delta")
      .filter(({ partId }) => !dropped.includes(partId ?? ""))
    expect(dropped.length).toBeGreaterThan(0)
    expect(kept.map(({ delta }) => delta).join("")).toBe("the whole answer")
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: "the whole answer" })
  })

  test("an empty answer of the model is reported as an error", async () => {
    c.model.on("empty", [text("")])
    const answer = await c.ask("empty", "@@empty@@", on("empty"))
    expect(JSON.stringify(answer.frames)).toContain("the model returned an empty answer")
  })

  test("a context overflow is compacted and the answer follows", async () => {
    // The compaction call contains only the earlier messages, so the script of the earlier prompt answers it.
    c.model.on("before-overflow", [text("some history"), text("a summary that nobody sees")])
    await c.ask("o1", "@@before-overflow@@", on("overflow"))
    c.model.on("overflow", [overflow(), text("after all")])
    const answer = await c.ask("o2", "@@overflow@@", on("overflow"))
    expect(answer.of("compacted")).toHaveLength(1)
    expect(answer.text).toBe("after all")
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: "after all" })
  })
})

describe("a provider error with another model left", () => {
  for (const status of [401, 402, 403, 429, 500]) {
    test(`a ${status} passes the prompt to the next model, with the prompt once in the history`, async () => {
      c.model.on(`over-${status}`, [httpError(status, { message: "not me" }), text("but me")])
      const answer = await c.ask(`o${status}`, `@@over-${status}@@`, {
        ...on(`o${status}`),
        ...two,
      })
      expect(answer.of("model-switched")).toMatchObject([
        { fromModel: "scripted/m1", toModel: "scripted/m2", reason: "not me" },
      ])
      expect(answer.final).toMatchObject({ reason: "end_turn", finalText: "but me" })
      expect(answer.of("complete")).toHaveLength(1)
      const last = c.model.requests.at(-1)
      expect(last?.model).toBe("m2")
      const asked = last?.messages.filter(({ role }) => role === "user") ?? []
      expect(asked).toHaveLength(1)
    })
  }

  test("the text of a failed attempt and of the next attempt are finalized under different turn ids", async () => {
    c.model.on("torn", [cutAfter("first try"), text("second try")])
    const answer = await c.ask("torn", "@@torn@@", { ...on("torn"), ...two })
    const finals = answer.of("message.finalize")
    expect(finals.map(({ reason, finalText }) => [reason, finalText])).toEqual([
      ["error", ""],
      ["end_turn", "second try"],
    ])
    expect(new Set(finals.map(({ turnId }) => turnId)).size).toBe(2)
    expect(answer.of("message.create")).toHaveLength(2)
  })

  test("the third model answers after two models have failed", async () => {
    const no = httpError(401, { message: "no key" })
    c.model.on("twice", [no, no, text("third time lucky")])
    const answer = await c.ask("twice", "@@twice@@", {
      ...on("twice"),
      model: "scripted/m1",
      modelPreferences: ["scripted/m2", "scripted/m3"],
    })
    expect(answer.of("model-switched").map(({ toModel }) => toModel)).toEqual([
      "scripted/m2",
      "scripted/m3",
    ])
    expect(answer.final).toMatchObject({ finalText: "third time lucky" })
  })

  test("one error names every attempt when all models have failed", async () => {
    c.model.on("hopeless", [
      httpError(401, { message: "bad key" }),
      httpError(402, { message: "no money" }),
    ])
    const answer = await c.ask("hopeless", "@@hopeless@@", { ...on("hopeless"), ...two })
    const errors = answer.frames.flatMap((frame) =>
      frame.type === "error" || frame.type === "message.finalize" ? [frame.error] : [],
    )
    expect(errors.at(-1)).toBe("all models failed: scripted/m1: bad key; scripted/m2: no money")
  })

  test("the prompt is not passed to another model after a tool has run", async () => {
    const mark = tool("bash", { command: "echo x >> marks.txt", description: "mark" })
    c.model.on("marked", [mark, httpError(401, { message: "expired" })])
    const answer = await c.ask("marked", "@@marked@@", { ...on("marked"), ...two })
    expect(answer.of("model-switched")).toEqual([])
    expect(answer.final).toMatchObject({
      reason: "error",
      error: "expired (not retried with another model: tools have already run)",
    })
    const marks = await Bun.file(`${c.runner.sandbox.workDir}/marks.txt`).text()
    expect(marks).toBe("x\n")
  })

  test("a 400 for the prompt itself is not passed to another model", async () => {
    c.model.on("bad", [httpError(400, { message: "bad request" })])
    const answer = await c.ask("bad", "@@bad@@", { ...on("bad"), ...two })
    expect(answer.of("model-switched")).toEqual([])
    expect(JSON.stringify(answer.frames)).toContain("bad request")
  })
})

test("an unknown model name without a provider is refused before the turn starts", async () => {
  const answer = await c.ask("nameless", "hello", { ...on("nameless"), model: "gpt" })
  expect(answer.of("error")).toMatchObject([
    {
      error:
        '"gpt" is not a known model: expected provider/model, such as scripted/m1, scripted/m2, scripted/m3',
    },
  ])
  expect(answer.of("complete")).toHaveLength(1)
})

test("a model that OpenCode does not know ends the turn with an error", async () => {
  const answer = await c.ask("unknown", "hello", { ...on("unknown"), model: "scripted/m9" })
  expect(answer.of("complete")).toHaveLength(1)
  expect(JSON.stringify(answer.frames)).toContain("Model not found")
})

test.each([
  ["the shell itself", "kill -KILL $$"],
  ["the only program", "sh -c 'kill -KILL $$'"],
])(
  "a command whose process is killed (%s) has ended, and the agent reads its exit code and goes on",
  async (_what, command) => {
    const name = crypto.randomUUID()
    // Without its exit code OpenCode would wait until this time is over.
    const bash = { command, description: "be killed", timeout: 3_600_000 }
    c.model.on(name, [tool("bash", bash), text("It was killed.")])
    const answer = await c.ask(name, `@@${name}@@`, on(name))
    const last = answer.of("message.part.tool-update").at(-1)
    expect(last).toMatchObject({ status: "completed", exit: 137 })
    expect(answer.final).toMatchObject({ reason: "end_turn", finalText: "It was killed." })
  },
)
