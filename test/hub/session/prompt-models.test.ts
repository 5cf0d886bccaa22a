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
  core.session.configure({ modelFallbacks: ["b/two", "c/three"] })
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
  core.session.configure({ modelFallbacks: [] })
  expect(core.session.snapshot().state["model"]).toEqual({ default: "a/one" })
  expect(send("after")).not.toHaveProperty("modelPreferences")
})

test("the owner's model is used before the runner has named its models, and a session keeps its own", () => {
  const core = createCore()
  const seq = core.connectRunner("a")
  const sent = (id: string, more: object = {}) => {
    core.session.prompt(prompt(id, more), `web:${id}`)
    return core.sent("a").find((frame) => frame.type === "prompt" && frame.messageId === id)
  }
  const account = { budget: {}, spent: { dollars: 0, tokens: 0 } }
  core.session.setOwnerAccount({ ...account, model: "b/two" })
  expect(sent("early")).toMatchObject({ model: "b/two" })
  // Preferences without a model lead: the owner's model must not come before them.
  expect(sent("own", { modelPreferences: ["d/four"] })).not.toHaveProperty("model")
  core.receive("a", { type: "models", models: [], default: "a/one", seq })
  expect(core.session.snapshot().state["model"]).toEqual({ default: "b/two" })
  core.session.setModel("c/three")
  expect(sent("session")).toMatchObject({ model: "c/three" })
  core.session.setOwnerAccount(account)
  expect(core.session.snapshot().state["model"]).toEqual({ default: "c/three" })
})

test("the runner's model comes back when the owner's is removed", () => {
  const core = createCore()
  const seq = core.connectRunner("a")
  core.receive("a", { type: "models", models: [], default: "a/one", seq })
  const account = { budget: {}, spent: { dollars: 0, tokens: 0 } }
  core.session.setOwnerAccount({ ...account, model: "b/two" })
  expect(core.session.snapshot().state["model"]).toEqual({ default: "b/two" })
  core.session.setOwnerAccount(account)
  expect(core.session.snapshot().state["model"]).toEqual({ default: "a/one" })
})
