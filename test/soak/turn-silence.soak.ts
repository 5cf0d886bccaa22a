/** Silent models: the budgets of a turn, short enough for a test. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Conversation, startConversation } from "../kit/conversation.ts"
import { hang, reply, text } from "../kit/model.ts"

let c: Conversation
beforeAll(async () => {
  c = await startConversation({ TURN_FIRST_EVENT_SECONDS: "4", TURN_PROGRESS_SECONDS: "6" })
  // The first prompt of an OpenCode process takes some seconds longer, so it is sent before the tests.
  c.model.on("warm", [text("warm")])
  await c.ask("warm", "@@warm@@", {
    modelPreferences: ["scripted/m1", "scripted/m2", "scripted/m3"],
  })
})
afterAll(() => c.stop())

/** One channel for each test, so that they do not share a queue. */
const on = (channelId: string) => ({ channelType: "test", channelId })
const two = { modelPreferences: ["scripted/m1", "scripted/m2"] }

test("a model that never responds ends the turn, and the next prompt on the channel runs", async () => {
  c.model.on("silent", [hang()])
  const answer = await c.ask("silent", "@@silent@@", on("silent"))
  expect(JSON.stringify(answer.frames)).toContain("no answer within 4 s")
  c.model.on("after-silence", [text("I am back")])
  const next = await c.ask("after-silence", "@@after-silence@@", on("silent"))
  expect(next.final).toMatchObject({ finalText: "I am back" })
})

test("a model that falls silent in mid-sentence ends the turn with an error and the text so far", async () => {
  c.model.on("stalled", [reply(text("I was just about to "), hang())])
  const answer = await c.ask("stalled", "@@stalled@@", on("stalled"))
  expect(answer.final).toMatchObject({
    reason: "error",
    finalText: "I was just about to ",
    error: "no progress for 6 s",
  })
})

test("a prompt to a model that never responds is retried with the next model", async () => {
  c.model.on("quiet", [hang(), text("I speak")])
  const answer = await c.ask("quiet", "@@quiet@@", { ...on("quiet"), ...two })
  expect(answer.of("model-switched")).toMatchObject([{ reason: "no answer within 4 s" }])
  expect(answer.final).toMatchObject({ finalText: "I speak" })
})
