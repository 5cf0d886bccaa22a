/**
 * One prompt through the whole system: session agent, link, OpenCode, model, event stream, and back over the link. The tests share one
 * runner, OpenCode, model and session agent; each has its own ids and channel.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import {
  type Conversation,
  leaveEmpty,
  startConversation,
  withoutReports,
} from "../kit/conversation.ts"
import { httpError, reply, text, tool } from "../kit/model.ts"

let c: Conversation

beforeAll(async () => {
  c = await startConversation({}, { furnish: leaveEmpty })
})
afterEach(() => c.agent.settle())
afterAll(() => c.stop())

const idleFor = (messageId: string) =>
  c.agent.frame("agentStatus", (frame) => frame.status === "idle" && frame.messageId === messageId)

const on = (channelId: string) => ({ channelType: "test", channelId })

const framesOf = (messageId: string) =>
  c.agent.frames.filter((frame) => "messageId" in frame && frame.messageId === messageId)

describe("a prompt with text, two tool calls and a final text", () => {
  const first = "I will look around first. ✓ "
  const last = "Two files were made: done.\nBye 👋"
  const ask = async (messageId: string, script: string) => {
    model(script)
    const channel = on(messageId)
    c.agent.say({ type: "prompt", messageId, content: `please @@${script}@@`, ...channel })
    await idleFor(messageId)
  }
  /** The replies of the model to a prompt with this name. */
  const model = (script: string) =>
    c.model.on(script, [
      reply(
        text(first, { chunks: 5 }),
        tool("bash", { command: "echo one > a.txt", description: "a" }),
      ),
      reply(tool("bash", { command: "echo two > b.txt; cat a.txt", description: "b" })),
      text(last, { chunks: 7 }),
    ])

  test("a turn with text and two tool calls sends every frame once and in order", async () => {
    await ask("p1", "two-tools")

    const frames = framesOf("p1")
    const types = frames.map((frame) => frame.type)
    expect(types.filter((type) => type === "message.create")).toHaveLength(1)
    expect(types.filter((type) => type === "message.finalize")).toHaveLength(1)
    expect(types.filter((type) => type === "complete")).toHaveLength(1)
    expect(types.slice(-3)).toEqual(["message.finalize", "complete", "agentStatus"])
    expect(types.indexOf("message.create")).toBeLessThan(types.indexOf("message.part.text-delta"))

    const joined = frames.flatMap((frame) =>
      frame.type === "message.part.text-delta" ? [frame.delta] : [],
    )
    const finalize = frames.find((frame) => frame.type === "message.finalize")
    expect(finalize).toMatchObject({ reason: "end_turn", finalText: first + last })
    expect(joined.join("")).toBe(first + last)

    const updates = frames.flatMap((frame) =>
      frame.type === "message.part.tool-update" ? [frame] : [],
    )
    const calls = [...new Set(updates.map(({ callId }) => callId))]
    expect(calls).toHaveLength(2)
    for (const call of calls) {
      const statuses = updates.flatMap(({ callId, status }) => (callId === call ? [status] : []))
      expect(statuses).toEqual(["pending", "running", "completed"])
    }
    expect(updates.at(-1)).toMatchObject({ toolName: "bash", result: "one\n" })
    expect(await Bun.file(join(c.runner.sandbox.workDir, "b.txt")).text()).toBe("two\n")
    expect(c.agent.problems).toEqual([])
    expect(c.agent.repeats()).toBe(0)
  })

  test("a second prompt on a channel continues the same agent session", async () => {
    await ask("p2-first", "two-tools-again")
    c.model.on("two-tools-again", [text("now this")])
    const channel = on("p2-first")
    c.agent.say({ type: "prompt", messageId: "p2", content: "and now?", ...channel })
    await idleFor("p2")
    const created = c.agent.frames.filter(
      (frame) => frame.type === "channel-session-created" && frame.channelKey === "test:p2-first",
    )
    expect(created).toHaveLength(1)
    expect(framesOf("p2").find((frame) => frame.type === "message.finalize")).toMatchObject({
      finalText: "now this",
    })
    expect(JSON.stringify(c.model.requests.at(-1)?.messages)).toContain("Two files were made")
  })
})

test("a prompt may name a model without its provider, and a model that does not exist ends the turn with the possible names", async () => {
  c.model.on("without-provider", [text("I am m2.")])
  const answer = await c.ask("bare", "hello @@without-provider@@", {
    model: "m2",
    ...on("bare"),
  })
  expect(answer.text).toBe("I am m2.")
  expect(c.model.requests.at(-1)?.model).toBe("m2")
  const { final } = await c.ask("unknown", "hello", { model: "m22", ...on("unknown") })
  expect(
    JSON.stringify(
      c.agent.frames.filter((frame) => "messageId" in frame && frame.messageId === "unknown"),
    ),
  ).toContain("scripted/m2")
  expect(final?.reason).not.toBe("end_turn")
})

test("an error of the model ends the turn and its message is reported", async () => {
  c.model.on("refused", [httpError(400, { message: "the scripted refusal" })])
  c.agent.say({ type: "prompt", messageId: "p3", content: "@@refused@@", ...on("p3") })
  await idleFor("p3")
  const types = framesOf("p3").map((frame) => frame.type)
  expect(types.filter((type) => type === "complete")).toHaveLength(1)
  expect(JSON.stringify(framesOf("p3"))).toContain("the scripted refusal")
})

test("malformed frames are dropped and the link keeps working", async () => {
  const dropped = () => c.runner.log.filter((line) => line.includes("link.frame-dropped")).length
  const before = dropped()
  c.agent.sayRaw("not json")
  c.agent.sayRaw('{"type":"prompt","messageId":7}')
  c.agent.sayRaw('{"type":"no-such-verb"}')
  c.agent.say({ type: "prompt", messageId: "p4", content: "still there?", ...on("p4") })
  await idleFor("p4")
  expect(dropped() - before).toBe(3)
})

test("every new connection receives the agent status, the tunnels, the models, the services and the applied config once", async () => {
  const before = c.agent.frames.length
  const connections = c.agent.connections()
  c.agent.close(1011, "Internal error")
  await c.agent.until(() => c.agent.connections() === connections + 1, "the next connection")
  await c.agent.frame("models", () => true, before)
  await c.agent.frame("opencode-config-applied", () => true, before)
  await c.agent.frame("services", () => true, before)
  const frames = withoutReports(c.agent.frames.slice(before))
  const sent = frames.map(({ type }) => type)
  expect(sent.slice(0, 3)).toEqual(["agentStatus", "tunnels", "models"])
  expect(sent.slice(3).toSorted()).toEqual(["opencode-config-applied", "services"])
  expect(frames[0]).toMatchObject({ type: "agentStatus", status: "idle" })
})

test("the runner's log contains neither the runner token nor the JWT secret", () => {
  const log = c.runner.log.join("\n")
  expect(log).not.toContain(c.agent.token)
  expect(log).not.toContain("a secret of the tests only")
})
