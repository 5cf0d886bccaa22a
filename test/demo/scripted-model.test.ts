/** Which reply the scripted model gives to which request. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { z } from "zod"
import { httpError, type ScriptedModel, startScriptedModel, text } from "../kit/model.ts"

const DEFAULT = "Nothing is scripted for this call."

let model: ScriptedModel

beforeEach(async () => {
  model = await startScriptedModel()
})

afterEach(() => model.stop())

describe("a scripted model", () => {
  test("a scripted model sends one enqueued reply per call, then a default", async () => {
    model.enqueue(text("one"), httpError(503), text("three"))
    expect([await call("a"), await call("b"), await call("c"), await call("d")]).toEqual([
      "one",
      "503",
      "three",
      DEFAULT,
    ])
    expect(model.requests.map(({ messages }) => messages[0]?.content)).toEqual(["a", "b", "c", "d"])
  })

  test("named scripts are independent of each other and of the queue", async () => {
    model.enqueue(text("queued"))
    model.on("left", [text("left 1"), text("left 2")])
    model.on("right", [text("right 1")])
    expect(await call("@@right@@ go")).toBe("right 1")
    expect(await call("@@left@@ go")).toBe("left 1")
    expect(await call("@@right@@ go")).toBe(DEFAULT)
    expect(await call("@@left@@ go")).toBe("left 2")
    expect(await call("no name")).toBe("queued")
  })

  test("a session keeps its script after the prompt that named it", async () => {
    model.on("long", [text("first"), text("second")])
    expect(await call("@@long@@", { session: "ses_1" })).toBe("first")
    expect(await call("continue", { session: "ses_2" })).toBe(DEFAULT)
    expect(await call("continue", { session: "ses_1" })).toBe("second")
  })

  test("expressions and functions match before the queue", async () => {
    model.enqueue(text("queued"))
    model.on(/weather/, [text("rain")])
    model.on(({ model: id }) => id === "m2", [text("from m2")])
    expect(await call("the weather?")).toBe("rain")
    expect(await call("hello", { id: "m2" })).toBe("from m2")
    expect(await call("the weather?")).toBe("queued")
  })

  test("a title request uses up no scripted reply", async () => {
    model.enqueue(text("one"))
    expect(await call("hello", { system: "You are a title generator." })).toBe("Scripted title")
    expect(await call("hello")).toBe("one")
    expect([model.titleRequests.length, model.requests.length]).toEqual([1, 1])
  })
})

const completion = z.object({
  choices: z.tuple([z.object({ message: z.object({ content: z.string() }) })]),
})

interface Change {
  readonly id?: string
  readonly session?: string
  readonly system?: string
}

/** The text of the reply, or its status when it fails. */
async function call(prompt: string, { id = "m1", session, system }: Change = {}): Promise<string> {
  const { scripted } = model.config.provider
  const response = await fetch(`${model.url}/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${scripted?.options.apiKey}`,
      ...(session === undefined ? {} : { "x-session-id": session }),
    },
    body: JSON.stringify({
      model: id,
      messages: [
        ...(system === undefined ? [] : [{ role: "system", content: system }]),
        { role: "user", content: prompt },
      ],
    }),
  })
  if (!response.ok) return String(response.status)
  return completion.parse(await response.json()).choices[0].message.content
}
