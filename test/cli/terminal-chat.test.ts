/** The terminal chat: input, output, Ctrl-C and exit codes. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { PassThrough } from "node:stream"
import { type ChatOptions, startChat } from "../../src/cli/terminal-chat.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { type FakeRunner, startFakeRunner } from "../hub/kit/fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN, startTestHub, type TestHub } from "../hub/kit/hub.ts"
import { untilTrue } from "../kit/until-true.ts"

let hub: TestHub
let runner: FakeRunner
let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "chat-"))
  hub = await startTestHub()
  runner = startFakeRunner({
    url: hub.hub.runnerUrl("s1"),
    token: RUNNER_TOKEN,
    stateDir: folder,
    answer: ({ content }) => [`you said ${content}`],
  })
})
afterEach(async () => {
  await runner.stop()
  await hub.stop()
  await rm(folder, { recursive: true, force: true })
})

const chat = (options: Partial<ChatOptions> = {}) => {
  const input = new PassThrough()
  const output = new PassThrough()
  let shown = ""
  output.on("data", (data: Buffer) => (shown += data.toString()))
  const started = startChat({
    input,
    output,
    interactive: false,
    clock: systemClock,
    hub: { url: hub.hub.url, token: CLIENT_TOKEN },
    session: "s1",
    ...options,
  })
  return { ...started, input, shown: () => shown }
}

test("a chat with one prompt shows the reply and exits with 0", async () => {
  const talk = chat({ text: "hello", model: "a/b" })
  await untilTrue(() => runner.busy() === 1, "turn")
  expect(runner.prompts[0]).toMatchObject({ content: "hello", model: "a/b" })
  runner.work(9)
  expect(await talk.finished).toBe(0)
  expect(talk.shown()).toBe("you said hello\n\n")
})

test("Ctrl-C cancels a running turn with exit code 130, and ends an idle chat with 0", async () => {
  const talk = chat({ text: "long" })
  await untilTrue(() => runner.busy() === 1, "turn")
  talk.interrupt()
  expect(await talk.finished).toBe(130)
  expect(runner.busy()).toBe(0)
  const idle = chat()
  await untilTrue(() => hub.hub.find("s1")?.status().working === 0, "rest")
  idle.interrupt()
  expect(await idle.finished).toBe(0)
})

test("a failed turn shows its error and exits with 1", async () => {
  const talk = chat({ text: "break" })
  await untilTrue(() => runner.busy() === 1, "turn")
  const origin = {
    messageId: runner.prompts[0]?.messageId ?? "",
    channelType: "web",
    channelId: "default",
  }
  runner.send({ type: "error", error: "the model is on fire", ...origin })
  runner.send({ type: "complete", ...origin })
  expect(await talk.finished).toBe(1)
  expect(talk.shown()).toContain("✗ the model is on fire")
})

test("piped lines are sent one at a time, and the next line answers a question", async () => {
  const talk = chat()
  talk.input.write("first\n2\nsecond\n")
  talk.input.end()
  await untilTrue(() => runner.busy() === 1, "turn")
  const { messageId = "" } = runner.prompts[0] ?? {}
  const origin = { messageId, channelType: "web", channelId: "default" }
  runner.send({ type: "question", questionId: "q", text: "Which?", options: ["a", "b"], ...origin })
  await untilTrue(() => runner.frames.some((frame) => frame.type === "answer"), "answer")
  expect(runner.frames.find((frame) => frame.type === "answer")).toMatchObject({ answer: "b" })
  runner.work(9)
  await untilTrue(() => runner.prompts.length === 2, "second prompt")
  runner.work(9)
  expect(await talk.finished).toBe(0)
  expect(talk.shown()).toContain("? Which?\n  1. a\n  2. b")
  expect(talk.shown()).toContain("you said second")
})

test("the chat reconnects to a restarted hub", async () => {
  const talk = chat({ text: "patience" })
  await untilTrue(() => runner.busy() === 1, "turn")
  const { port } = hub.hub
  const { stateDir } = hub
  await hub.hub.stop()
  hub = await startTestHub({ stateDir, port }, undefined)
  runner.work(9)
  expect(await talk.finished).toBe(0)
  expect(talk.shown()).toContain("you said patience")
  await rm(stateDir, { recursive: true, force: true })
})

test("a session that does not exist is reported with exit code 2", async () => {
  const talk = chat({ text: "x", session: "nowhere" })
  expect(await talk.finished).toBe(2)
  expect(talk.shown()).toContain("HTTP 404")
})

test("a session agent that stays unreachable ends the chat with exit code 1", async () => {
  const talk = chat({ text: "x", patienceMs: 200 })
  await untilTrue(() => runner.busy() === 1, "turn")
  await hub.hub.stop()
  expect(await talk.finished).toBe(1)
  expect(talk.shown()).toContain("is gone")
})

const askApproval = () =>
  hub.hub.find("s1")?.note({
    id: "n1",
    role: "system",
    content: "A workflow waits.",
    approval: { executionId: "e1", stepId: "ok", text: "Deploy?" },
  })

test("an approval that a workflow waits for takes no input of a chat from a pipe and stops none of its prompts", async () => {
  askApproval()
  const talk = chat()
  talk.input.end("yes\n")
  await untilTrue(() => runner.busy() === 1, "turn")
  expect(runner.prompts[0]).toMatchObject({ content: "yes" })
  runner.work(9)
  expect(await talk.finished).toBe(0)
  expect(talk.shown()).not.toContain("Deploy?")
})

test("a person at a terminal reads what a workflow waits for, sends prompts meanwhile, and decides", async () => {
  const talk = chat({ interactive: true })
  askApproval()
  await untilTrue(() => talk.shown().includes("waits for your approval: Deploy?"), talk.shown)
  talk.input.write("hello\r")
  await untilTrue(() => runner.busy() === 1, "turn")
  runner.work(9)
  await untilTrue(() => talk.shown().includes("you said hello"), talk.shown)
  talk.input.write("n\r")
  // The session of this test has no shared store.
  await untilTrue(() => talk.shown().includes("the decision could not be stored"), talk.shown)
  expect(runner.prompts).toHaveLength(1)
  talk.close()
})
