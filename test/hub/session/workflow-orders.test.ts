/** Orders to run workflows, and to run them no more: said again on every connection until they are answered. */
import { describe, expect, test } from "bun:test"
import { type Core, createCore } from "../kit/core.ts"

const order = (decision?: "approve" | "deny") =>
  ({
    type: "workflow-execute",
    executionId: "e1",
    payload: {
      kind: decision === undefined ? "run" : "resume",
      executionId: "e1",
      payload: {},
      ...(decision && { resumeToken: "t", decision }),
    },
  }) as const
const stop = { type: "abort", channelType: "workflow", channelId: "e1" } as const
const result = (status: "ok" | "failed" | "cancelled") => ({
  type: "workflow-execution-result",
  executionId: "e1",
  envelope: { ok: status === "ok", status, executionId: "e1" },
})

/** What a connection was told of the run. */
const told = (core: Core, connection: string) =>
  core
    .sent(connection)
    .filter(({ executionId, channelId }) => executionId === "e1" || channelId === "e1")
    .map((frame) => (frame.type === "workflow-execute" ? "run" : frame.type))

describe("a run that is cancelled", () => {
  const running = () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.session.orderWorkflow("e1", order())
    expect(told(core, "a")).toEqual(["run"])
    return { core, next }
  }

  test("is stopped at once, by its channel", () => {
    const { core } = running()
    core.session.cancelWorkflow("e1")
    expect(core.sent("a").at(-1)).toEqual(stop as never)
  })

  test("is stopped on every new connection until the runner answers, and not ordered any more", () => {
    const { core, next } = running()
    core.session.cancelWorkflow("e1")
    core.session.runner.closed("a")
    const after = core.connectRunner("b", { nextSeq: next })
    expect(told(core, "b")).toEqual(["abort"])
    const last = core.connectRunner("c", { nextSeq: after })
    expect(told(core, "c")).toEqual(["abort"])
    core.receive("c", { ...stop, type: "aborted", seq: last })
    core.connectRunner("d", { nextSeq: last + 1 })
    expect(told(core, "d")).toEqual([])
  })

  test("is stopped when the hub dies with the word on its lips", () => {
    const { core, next } = running()
    core.session.runner.closed("a")
    core.session.cancelWorkflow("e1")
    const later = core.restart()
    later.connectRunner("b", { nextSeq: next })
    expect(told(later, "b")).toEqual(["abort"])
  })

  test.each(["ok", "failed", "cancelled"] as const)(
    "is not stopped any more when its answer comes: %s",
    (status) => {
      const { core, next } = running()
      core.session.cancelWorkflow("e1")
      core.session.runner.closed("a")
      const later = core.connectRunner("b", { nextSeq: next, settle: false })
      // Said before the barrier: it is known when the runner would be told.
      core.receive("b", { ...result(status), seq: later })
      const barrier = core.sent("b").find(({ type }) => type === "abort")
      core.receive("b", { ...barrier, type: "aborted", seq: later + 1 })
      core.receive("b", { type: "agentStatus", status: "idle", seq: later + 2 })
      expect(told(core, "b")).toEqual([])
    },
  )

  test("before its runner has heard of it is never ordered, in whatever order the two come", () => {
    const core = createCore()
    core.session.orderWorkflow("e1", order())
    core.session.cancelWorkflow("e1")
    core.session.orderWorkflow("e1", order())
    core.session.orderWorkflow("e1/t", order("approve"))
    core.connectRunner("a")
    expect(told(core, "a")).toEqual(["abort"])
  })

  test("while it waits for a decision is denied all the same", () => {
    const { core, next } = running()
    core.session.orderWorkflow("e1/t", order("deny"))
    core.session.cancelWorkflow("e1")
    core.session.orderWorkflow("e1/t", order("deny"))
    core.connectRunner("b", { nextSeq: next })
    expect(core.sent("b").filter(({ type }) => type === "workflow-execute")).toEqual([
      order("deny"),
    ] as never)
  })

  test("is stopped while the agent is not ready for prompts: commands run without it", () => {
    const { core, next } = running()
    core.receive("a", { type: "agentStatus", status: "error", detail: "restarts", seq: next })
    core.session.cancelWorkflow("e1")
    expect(told(core, "a")).toEqual(["run", "abort"])
  })
})
