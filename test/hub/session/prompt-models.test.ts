import { expect, test } from "bun:test"
import { createCore } from "../kit/core.ts"

const prompt = (messageId: string, more: object = {}) => ({
  type: "prompt" as const,
  messageId,
  content: "hello",
  channelType: "web",
  channelId: messageId,
  ...more,
})

test("a prompt is sent with the fallbacks of the config after its own model or the default", async () => {
  const core = createCore()
  const seq = core.connectRunner("a")
  await core.session.configure({ modelFallbacks: ["b/two", "c/three"] })
  const sent = (id: string) =>
    core.sent("a").find((frame) => frame.type === "prompt" && frame.messageId === id)
  const send = (id: string, more: object = {}) => {
    core.session.prompt(prompt(id, more), `web:${id}`)
    return sent(id)
  }
  // Without a known default the fallback would become the first model.
  expect(send("early")).not.toHaveProperty("modelPreferences")
  core.receive("a", { type: "models", models: [], default: "a/one", seq })
  expect(core.session.snapshot().state["model"]).toEqual({
    default: "a/one",
    fallbacks: ["b/two", "c/three"],
  })
  expect(send("plain")).toMatchObject({
    model: "a/one",
    modelPreferences: ["b/two", "c/three"],
  })
  expect(send("named", { model: "b/two" })).toMatchObject({
    model: "b/two",
    modelPreferences: ["c/three"],
  })
  expect(send("own", { modelPreferences: ["d/four"] })).toMatchObject({
    modelPreferences: ["d/four"],
  })
  await core.session.configure({ modelFallbacks: [] })
  expect(core.session.snapshot().state["model"]).toEqual({ default: "a/one" })
  expect(send("after")).not.toHaveProperty("modelPreferences")
})
