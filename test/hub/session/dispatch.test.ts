/** Which prompts the hub sends to the runner: it must be ready, and a channel runs one prompt and those that steer it. */
import { describe, expect, test } from "bun:test"
import { type Core, createCore } from "../kit/core.ts"

const prompt = (messageId: string, channelId = "a", steer?: boolean) =>
  ({
    type: "prompt",
    messageId,
    content: messageId,
    channelType: "web",
    channelId,
    ...(steer && { steer }),
  }) as const
const dispatched = (core: Core, connection: string) =>
  core.sent(connection).flatMap(({ type, messageId }) => (type === "prompt" ? [messageId] : []))

describe("a runner that reconnects while a channel works", () => {
  const reconnected = (status: object) => {
    const core = createCore()
    core.connectRunner("one")
    core.session.prompt(prompt("p1"), "web:a")
    core.session.runner.closed("one")
    const active = [{ messageId: "p1", channelKey: "web:a", turnId: "t1" }]
    core.connectRunner("two", { nextSeq: 3, active, settle: false })
    const barrier = core.sent("two").find((frame) => frame.type === "abort")
    core.receive("two", { type: "agentStatus", ...status, seq: 3 })
    core.receive("two", { ...barrier, type: "aborted", seq: 4 })
    core.session.prompt(prompt("p2", "b"), "web:b")
    return core
  }

  test("a ready runner gets the prompts of other channels in every status", () => {
    const core = reconnected({ status: "streaming", ready: true })
    expect(dispatched(core, "two")).toEqual(["p2"])
  })

  test("a runner that is not ready gets no prompt until it is", () => {
    const core = reconnected({ status: "thinking", detail: "starting", ready: false })
    expect(dispatched(core, "two")).toEqual([])
    core.receive("two", { type: "agentStatus", status: "thinking", ready: true, seq: 5 })
    expect(dispatched(core, "two")).toEqual(["p2"])
  })

  test("a runner that does not send ready gets prompts when it reports idle", () => {
    const core = reconnected({ status: "thinking", detail: "starting" })
    expect(dispatched(core, "two")).toEqual([])
    core.receive("two", { type: "agentStatus", status: "idle", seq: 5 })
    expect(dispatched(core, "two")).toEqual(["p2"])
  })
})

test("a channel that is stopped ends its running prompt and runs none that was queued, and others go on", () => {
  const core = createCore()
  const next = core.connectRunner("one")
  core.session.prompt(prompt("p1"), "web:a")
  core.session.prompt(prompt("p2"), "web:a")
  core.session.prompt(prompt("q1", "b"), "web:b")
  core.session.prompt(prompt("q2", "b"), "web:b")
  core.session.stop("web:a")
  core.receive("one", { type: "complete", messageId: "p1", seq: next })
  core.receive("one", { type: "complete", messageId: "q1", seq: next + 1 })
  expect(dispatched(core, "one")).toEqual(["p1", "q1", "q2"])
  expect(core.session.activity()).toMatchObject({ working: 1, queued: 0 })
})

describe("a prompt that steers", () => {
  test("a prompt that steers is sent while its channel works, and ordinary prompts wait for both", () => {
    const core = createCore()
    const next = core.connectRunner("one")
    core.session.prompt(prompt("p1"), "web:a")
    core.session.prompt(prompt("p2"), "web:a")
    core.session.prompt(prompt("p3", "a", true), "web:a")
    expect(dispatched(core, "one")).toEqual(["p1", "p3"])
    core.receive("one", { type: "complete", messageId: "p1", seq: next })
    expect(dispatched(core, "one")).toEqual(["p1", "p3"])
    core.receive("one", { type: "complete", messageId: "p3", seq: next + 1 })
    expect(dispatched(core, "one")).toEqual(["p1", "p3", "p2"])
  })

  test("a prompt that steers an idle channel runs like any other prompt", () => {
    const core = createCore()
    core.connectRunner("one")
    core.session.prompt(prompt("p1", "a", true), "web:a")
    core.session.prompt(prompt("p2"), "web:a")
    expect(dispatched(core, "one")).toEqual(["p1"])
  })

  test("two prompts of one channel that the runner lost are sent again, and the first one runs first", () => {
    const core = createCore()
    core.connectRunner("one")
    core.session.prompt(prompt("p1"), "web:a")
    core.session.prompt(prompt("p2", "a", true), "web:a")
    core.session.runner.closed("one")
    core.connectRunner("two", { epoch: "other" })
    expect(dispatched(core, "two")).toEqual(["p1", "p2"])
  })
})
