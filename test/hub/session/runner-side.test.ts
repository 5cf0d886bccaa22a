/** The runner's side of a session, frame by frame: what is accepted, what is dispatched, what is sent. */
import { describe, expect, test } from "bun:test"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import type { Sql } from "../../../src/hub/session/ports.ts"
import { createCore } from "../kit/core.ts"

const prompt = (messageId: string) => ({ type: "prompt", messageId, content: messageId }) as const
const promptsTo = (frames: readonly { type: string; messageId?: unknown }[]) =>
  frames.flatMap(({ type, messageId }) => (type === "prompt" ? [messageId] : []))
const origin = { messageId: "p1", channelType: "web", channelId: "default" }

describe("a reconnecting runner", () => {
  test("before the barrier an old idle dispatches nothing, and a prompt that ended meanwhile is not run again", () => {
    const core = createCore()
    core.connectRunner("a")
    core.session.prompt(prompt("p1"), "web:default")
    expect(promptsTo(core.sent("a"))).toEqual(["p1"])
    core.session.runner.closed("a")
    core.connectRunner("b", { nextSeq: 3, settle: false })
    core.receive("b", { type: "agentStatus", status: "idle", seq: 3 })
    expect(promptsTo(core.sent("b"))).toEqual([])
    core.receive("b", { type: "complete", ...origin, seq: 4 })
    const barrier = core.sent("b").find((frame) => frame.type === "abort")
    core.receive("b", { ...barrier, type: "aborted", seq: 5 })
    expect(promptsTo(core.sent("b"))).toEqual([])
    expect(core.session.status()).toMatchObject({ working: 0, queued: 0 })
  })

  test("a prompt that the runner lost is dispatched again, once and before later prompts", () => {
    const core = createCore()
    core.connectRunner("a")
    core.session.prompt(prompt("p1"), "web:default")
    core.session.prompt(prompt("p2"), "web:default")
    core.session.runner.closed("a")
    core.connectRunner("b", { nextSeq: 3 })
    expect(promptsTo(core.sent("b"))).toEqual(["p1"])
  })

  test("a prompt that the runner still runs is kept, and other channels continue", () => {
    const core = createCore()
    core.connectRunner("a")
    core.session.prompt(prompt("p1"), "web:default")
    core.session.runner.closed("a")
    core.session.prompt({ ...prompt("p2"), channelType: "chat", channelId: "1" }, "chat:1")
    const active = [{ messageId: "p1", channelKey: "web:default", turnId: "t1" }]
    core.connectRunner("b", { nextSeq: 3, active, settle: false })
    const barrier = core.sent("b").find((frame) => frame.type === "abort")
    core.receive("b", { ...barrier, type: "aborted", seq: 3 })
    expect(promptsTo(core.sent("b"))).toEqual(["p2"])
    expect(core.session.status()).toMatchObject({ working: 2 })
  })

  test("a runner that does not answer the barrier counts as reconciled after ten seconds", () => {
    const core = createCore()
    core.session.prompt(prompt("p1"), "web:default")
    core.connectRunner("a", { settle: false })
    core.receive("a", { type: "agentStatus", status: "idle", seq: 1 })
    expect(promptsTo(core.sent("a"))).toEqual([])
    core.clock.advance(10_000)
    expect(promptsTo(core.sent("a"))).toEqual(["p1"])
  })
})

test("the agent is shown as idle when a channel reports idle at the end of its turn", () => {
  const core = createCore()
  const next = core.connectRunner("a")
  const agent = () => (core.session.snapshot()["state"] as { agent?: unknown }).agent
  expect(agent()).toEqual({ status: "idle" })
  core.receive("a", { type: "agentStatus", status: "tool_calling", detail: "bash", seq: next })
  expect(agent()).toEqual({ status: "tool_calling", detail: "bash" })
  core.receive("a", { type: "agentStatus", status: "thinking", ...origin, seq: next + 1 })
  expect(agent()).toEqual({ status: "thinking" })
  core.receive("a", { type: "agentStatus", status: "idle", ...origin, seq: next + 2 })
  expect(agent()).toEqual({ status: "idle" })
})

test("the agent is shown at work while a prompt of any channel runs, also when another channel becomes idle", () => {
  const core = createCore()
  const next = core.connectRunner("a")
  const agent = () => (core.session.snapshot()["state"] as { agent?: unknown }).agent
  for (const channelId of ["one", "two"])
    core.session.prompt({ ...prompt(channelId), channelType: "web", channelId }, `web:${channelId}`)
  const of = (channelId: string) => ({ messageId: channelId, channelType: "web", channelId })
  core.receive("a", { type: "agentStatus", status: "thinking", ...of("one"), seq: next })
  core.receive("a", { type: "agentStatus", status: "streaming", ...of("two"), seq: next + 1 })
  core.receive("a", { type: "complete", ...of("two"), seq: next + 2 })
  core.receive("a", { type: "agentStatus", status: "idle", ...of("two"), seq: next + 3 })
  expect(agent()).toEqual({ status: "thinking" })
  core.receive("a", { type: "complete", ...of("one"), seq: next + 4 })
  core.receive("a", { type: "agentStatus", status: "idle", ...of("one"), seq: next + 5 })
  expect(agent()).toEqual({ status: "idle" })
})

test("the texts of two voice messages of one prompt are both kept, and a repeated one once", () => {
  const core = createCore()
  const next = core.connectRunner("a")
  core.session.prompt(prompt("p1"), "web:default")
  for (const [index, transcript] of ["first words", "other words", "first words"].entries())
    core.receive("a", { type: "audio-transcript", messageId: "p1", transcript, seq: next + index })
  const [message] = core.session.snapshot().messages
  expect(message?.parts.flatMap(({ kind, data }) => (kind === "transcript" ? [data] : []))).toEqual(
    [{ transcript: "first words" }, { transcript: "other words" }],
  )
})

describe("the stream of frames", () => {
  test("written frames are acknowledged together within 50 ms", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.clock.advance(50)
    core.receive("a", { type: "title", title: "x", seq: next })
    core.receive("a", { type: "title", title: "y", seq: next + 1 })
    const before = core.sent("a").length
    core.clock.advance(50)
    expect(core.sent("a").slice(before)).toEqual([{ type: "ack", seq: next + 1 }] as never)
  })

  test("deltas are acknowledged only after their batch is written", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.receive("a", {
      type: "message.part.text-delta",
      turnId: "t",
      partId: "p",
      delta: "a",
      ...origin,
      seq: next,
    })
    core.clock.advance(60)
    core.receive("a", {
      type: "message.part.text-delta",
      turnId: "t",
      partId: "p",
      delta: "b",
      ...origin,
      seq: next + 1,
    })
    core.clock.advance(100)
    const acks = () => core.sent("a").flatMap((frame) => (frame.type === "ack" ? [frame.seq] : []))
    expect(acks().at(-1)).toBe(next)
    core.clock.advance(250)
    expect(acks().at(-1)).toBe(next + 1)
  })

  test.each([
    ["one byte each", "a", 1],
    ["two bytes each", "ß", 2],
    ["three bytes each", "漢", 3],
    ["four bytes each, cut in half", "👋", 4],
  ])("deltas are written as soon as they are 2 KiB: characters of %s", (_what, sign, bytes) => {
    const core = createCore()
    const next = core.connectRunner("a")
    const say = (delta: string, seq: number) =>
      core.receive("a", {
        type: "message.part.text-delta",
        turnId: "t",
        partId: "p",
        delta,
        ...origin,
        seq,
      })
    const written = () => core.sql.all<{ size: number }>("SELECT size FROM parts")[0]?.size
    say("a", next)
    const count = Math.ceil(2048 / bytes)
    const text = sign.repeat(count)
    const most = Math.floor(2047 / bytes) * sign.length
    // Cut in the middle, between the halves of a surrogate pair.
    const middle = Math.floor(most / 2) | 1
    say(text.slice(0, middle), next + 1)
    say(text.slice(middle, most), next + 2)
    expect(written()).toBe(1)
    say(text.slice(most), next + 3)
    expect(written()).toBe(1 + text.length)
  })

  test("a missing frame closes the connection, and the runner resumes after the last stored frame", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.receive("a", { type: "title", title: "lost before", seq: next + 1 })
    expect(core.closed).toEqual([["a", 4000, "Resend from what is stored"]])
    core.receive("a", { type: "title", title: "late", seq: next })
    core.connectRunner("b", { nextSeq: next })
    expect(core.sent("b")[0]).toMatchObject({ type: "welcome", lastSeq: next - 1 })
  })

  test("a duplicate frame changes nothing", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.receive("a", {
      type: "usage",
      turnId: "t",
      model: "m",
      input: 5,
      output: 1,
      reasoning: 0,
      cacheRead: 0,
      cacheWrite: 0,
      seq: next,
    })
    core.receive("a", {
      type: "usage",
      turnId: "t",
      model: "m",
      input: 5,
      output: 1,
      reasoning: 0,
      cacheRead: 0,
      cacheWrite: 0,
      seq: next,
    })
    expect(core.session.snapshot()["usage"]).toMatchObject({ input: 5 })
  })

  test("a malformed frame is skipped, and a malformed request gets an error", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.session.runner.receive("a", `{"type":"memory-write","requestId":"r1","seq":${next}}`)
    core.session.runner.receive("a", "not json")
    core.receive("a", { type: "title", title: "after", seq: next + 1 })
    expect(core.closed).toEqual([])
    expect(core.session.status().title).toBe("after")
    expect(core.sent("a").find((frame) => frame.type === "memory-write-result")).toMatchObject({
      requestId: "r1",
      error: expect.stringContaining("malformed request"),
    })
  })

  test("a frame that cannot be written is tried twice, then skipped; the deltas before it are kept", () => {
    const sql = openBunSql(":memory:")
    const failing: Sql = {
      ...sql,
      run: (query, ...values) => {
        if (values.includes('"poison"')) throw new Error("disk I/O error")
        sql.run(query, ...values)
      },
    }
    const core = createCore(failing)
    const next = core.connectRunner("a")
    core.receive("a", {
      type: "message.part.text-delta",
      turnId: "t",
      partId: "p",
      delta: "one ",
      ...origin,
      seq: next,
    })
    core.receive("a", {
      type: "message.part.text-delta",
      turnId: "t",
      partId: "p",
      delta: "two ",
      ...origin,
      seq: next + 1,
    })
    core.receive("a", { type: "title", title: "poison", seq: next + 2 })
    expect(core.closed).toHaveLength(1)
    core.session.runner.opened("b")
    core.receive("b", {
      type: "hello",
      protocol: 2,
      runner: { name: "t", version: "0" },
      sessionId: "s",
      epoch: "e",
      nextSeq: next + 1,
      active: [],
    })
    core.receive("b", {
      type: "message.part.text-delta",
      turnId: "t",
      partId: "p",
      delta: "two ",
      ...origin,
      seq: next + 1,
    })
    core.receive("b", { type: "title", title: "poison", seq: next + 2 })
    core.receive("b", { type: "title", title: "fine", seq: next + 3 })
    expect(core.closed).toHaveLength(1)
    expect(core.session.status().title).toBe("fine")
    expect(core.session.recent(5)[0]?.parts[0]?.text).toBe("one two ")
  })

  test("a runner without a hello is configured at its first frame and gets prompts when it is idle", () => {
    const core = createCore()
    core.session.prompt(prompt("p1"), "web:default")
    core.session.runner.opened("old")
    core.receive("old", { type: "agentStatus", status: "idle" })
    expect(core.sent("old").map(({ type }) => type)).toEqual(["init", "opencode-config", "prompt"])
    core.receive("old", { type: "complete" })
    expect(core.session.status()).toMatchObject({ working: 0 })
  })

  test("frames of a replaced runner are ignored", () => {
    const core = createCore()
    core.connectRunner("a")
    core.connectRunner("b", { epoch: "other" })
    core.receive("a", { type: "title", title: "from the replaced runner", seq: 3 })
    expect(core.session.status().title).toBeUndefined()
    expect(core.closed).toEqual([["a", 1000, "Replaced by new runner connection"]])
    core.session.runner.closed("a")
    expect(core.session.status().connected).toBeTrue()
  })
})

describe("a stop", () => {
  test("a stop that the runner does not confirm within 15 s frees the channel", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.session.prompt(prompt("p1"), "web:default")
    core.receive("a", { type: "message.create", turnId: "t1", ...origin, seq: next })
    core.session.prompt(prompt("p2"), "web:default")
    core.session.clients.request({ type: "abort" }, "test")
    core.clock.advance(14_000)
    expect(promptsTo(core.sent("a"))).toEqual(["p1"])
    core.clock.advance(1000)
    expect(promptsTo(core.sent("a"))).toEqual(["p1", "p2"])
    expect(core.session.recent(9)[1]).toMatchObject({
      status: "canceled",
      error: "the runner did not confirm the stop",
    })
    core.receive("a", {
      type: "message.part.text-delta",
      turnId: "t1",
      partId: "p",
      delta: "too late",
      ...origin,
      seq: next + 1,
    })
    expect(core.session.recent(9)[1]?.parts).toEqual([])
  })

  test("deltas that come after an unconfirmed stop are dropped", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.session.prompt(prompt("p1"), "web:default")
    const say = (delta: string, seq: number) =>
      core.receive("a", {
        type: "message.part.text-delta",
        turnId: "t1",
        partId: "p",
        delta,
        ...origin,
        seq,
      })
    say("in ", next)
    say("time", next + 1)
    core.session.clients.request({ type: "abort" }, "test")
    core.clock.advance(15_000)
    say(" and too late", next + 2)
    expect(core.session.recent(9)[1]?.parts.map(({ text }) => text)).toEqual(["in time"])
  })

  test("a stop that is requested without a runner is sent when the runner reconnects", () => {
    const core = createCore()
    core.connectRunner("a")
    core.session.prompt(prompt("p1"), "web:default")
    core.session.runner.closed("a")
    core.session.clients.request({ type: "abort" }, "test")
    core.connectRunner("b", {
      nextSeq: 3,
      active: [{ messageId: "p1", channelKey: "web:default", turnId: "t" }],
    })
    const aborts = core.sent("b").filter((frame) => frame.type === "abort")
    expect(aborts.at(-1)).toEqual({
      type: "abort",
      channelType: "web",
      channelId: "default",
    } as never)
  })
})

describe("a question", () => {
  test("an answer that is given without a runner is sent when the runner reconnects", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.session.prompt(prompt("p1"), "web:default")
    core.receive("a", { type: "question", questionId: "q", text: "?", ...origin, seq: next })
    core.session.runner.closed("a")
    expect(
      core.session.clients.request({ type: "answer", id: "q", answer: "yes" }, "test"),
    ).toEqual({ ok: true })
    core.connectRunner("b", {
      nextSeq: next + 1,
      active: [{ messageId: "p1", channelKey: "web:default", turnId: "t" }],
    })
    expect(core.sent("b").find((frame) => frame.type === "answer")).toEqual({
      type: "answer",
      questionId: "q",
      answer: "yes",
    } as never)
  })

  test("a promoted prompt answers an open question, and other questions expire with the turn", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.session.prompt(prompt("p1"), "web:default")
    core.receive("a", { type: "question", questionId: "q", text: "?", ...origin, seq: next })
    core.receive("a", { type: "question", questionId: "q2", text: "?", ...origin, seq: next + 1 })
    core.session.prompt(prompt("p2"), "web:default")
    expect(core.session.clients.request({ type: "promote", id: "p2" }, "test")).toMatchObject({
      ok: true,
      answered: "q",
    })
    expect(core.sent("a").at(-1)).toEqual({
      type: "answer",
      questionId: "q",
      answer: "p2",
    } as never)
    core.receive("a", { type: "complete", ...origin, seq: next + 2 })
    expect(
      core.session.clients.request({ type: "answer", id: "q2", answer: "x" }, "test"),
    ).toMatchObject({ error: { code: "too-late" } })
    expect(promptsTo(core.sent("a"))).toEqual(["p1"])
  })
})

test("keys in the config reach the runner and no client", async () => {
  const core = createCore()
  core.session.configure({ providerKeys: { openai: "sk-secret" } }, { withResult: true })
  core.connectRunner("a")
  expect(core.sent("a").find((frame) => frame.type === "opencode-config")).toMatchObject({
    config: { providerKeys: { openai: "sk-secret" } },
  })
  expect(JSON.stringify([core.session.snapshot(), core.broadcasts])).not.toContain("sk-secret")
})

test("a change of the config reaches a connected runner, also one that no client asked for", async () => {
  const core = createCore()
  core.connectRunner("a")
  const before = core.sent("a").length
  core.session.configure({ instructions: ["Wade slowly."] })
  core.session.configure({})
  expect(core.sent("a").slice(before)).toEqual([
    { type: "opencode-config", config: { instructions: ["Wade slowly."] } } as never,
  ])
})

test("a session that has ended refuses every runner", () => {
  const core = createCore()
  expect(core.session.refuseRunner("h")).toBe(503)
  core.session.setRunnerToken("h")
  expect(core.session.refuseRunner("x")).toBe(401)
  expect(core.session.refuseRunner("")).toBe(401)
  expect(core.session.refuseRunner("h")).toBeUndefined()
  core.connectRunner("a")
  core.session.terminate("enough")
  expect(core.sent("a").at(-1)).toEqual({ type: "stop" } as never)
  expect(core.closed).toEqual([["a", 1000, "Session terminated"]])
  expect(core.session.refuseRunner("h")).toBe(410)
})

test("a request to the runner expires after two minutes", () => {
  const core = createCore()
  core.connectRunner("a")
  const reply = core.session.clients.request({ type: "diff" }, "test")
  if (!reply.ok) throw new Error("the request was refused")
  const last = () => core.broadcasts.findLast(({ type }) => type === "answer")
  core.clock.advance(119_000)
  expect(last()).toBeUndefined()
  core.clock.advance(1000)
  expect(last()).toMatchObject({ requestId: reply["requestId"], asked: "diff", status: "expired" })
})

test("a failed revert becomes a system message with the error", () => {
  const core = createCore()
  const next = core.connectRunner("a")
  core.receive("a", { type: "reverted", messageIds: [], error: "a turn is running", seq: next })
  expect(core.session.recent(1)[0]).toMatchObject({
    role: "system",
    status: "error",
    error: "not undone: a turn is running",
  })
})

test("a revert that leaves the files as they are says so in its own channel", () => {
  const core = createCore()
  const seq = core.connectRunner("a")
  const channel = { channelType: "web", channelId: "other" }
  core.receive("a", { type: "reverted", messageIds: ["m1"], filesKept: true, ...channel, seq })
  expect(core.session.recent(1)[0]).toMatchObject({
    role: "system",
    status: "done",
    channel: "web:other",
    parts: [{ text: expect.stringContaining("The changes of files stay") }],
  })
})
