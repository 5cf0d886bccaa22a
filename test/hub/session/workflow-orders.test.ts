/** Workflow orders and cancels: sent on every connection until they are answered. */
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

/** The frames about the run that a connection got. */
const framesOf = (core: Core, connection: string) =>
  core
    .sent(connection)
    .filter(({ executionId, channelId }) => executionId === "e1" || channelId === "e1")
    .map((frame) => (frame.type === "workflow-execute" ? "run" : frame.type))

describe("an order whose delivery is not confirmed", () => {
  const sentOrder = (core: Core, connection: string) =>
    core.sent(connection).find(({ type }) => type === "workflow-execute")

  test("an order is sent again as new to the same state directory, and as delivered to another one", () => {
    const core = createCore()
    const next = core.connectRunner("a", { epoch: "disk-1" })
    core.session.orderWorkflow("e1", order())
    expect(sentOrder(core, "a")?.["delivered"]).toBeUndefined()
    core.session.runner.closed("a")
    core.connectRunner("b", { epoch: "disk-1", nextSeq: next })
    expect(sentOrder(core, "b")?.["delivered"]).toBeUndefined()
    core.session.runner.closed("b")
    core.connectRunner("c", { epoch: "disk-2" })
    expect(sentOrder(core, "c")?.["delivered"]).toBe(true)
  })

  test("an order that no runner was sent is new to the first one that connects", () => {
    const core = createCore()
    core.connectRunner("a", { epoch: "disk-1" })
    core.session.runner.closed("a")
    core.session.orderWorkflow("e1", order())
    core.connectRunner("b", { epoch: "disk-2" })
    expect(sentOrder(core, "b")?.["delivered"]).toBeUndefined()
  })
})

describe("a cancelled run", () => {
  const running = () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.session.orderWorkflow("e1", order())
    expect(framesOf(core, "a")).toEqual(["run"])
    return { core, next }
  }

  test("a cancelled run is stopped at once by an abort of its channel", () => {
    const { core } = running()
    core.session.cancelWorkflow("e1")
    expect(core.sent("a").at(-1)).toEqual(stop as never)
  })

  test("a cancelled run is aborted on every connection until the runner confirms, and never ordered again", () => {
    const { core, next } = running()
    core.session.cancelWorkflow("e1")
    core.session.runner.closed("a")
    const after = core.connectRunner("b", { nextSeq: next })
    expect(framesOf(core, "b")).toEqual(["abort"])
    const last = core.connectRunner("c", { nextSeq: after })
    expect(framesOf(core, "c")).toEqual(["abort"])
    core.receive("c", { ...stop, type: "aborted", seq: last })
    core.connectRunner("d", { nextSeq: last + 1 })
    expect(framesOf(core, "d")).toEqual([])
  })

  test("a cancelled run is aborted after a restart of the hub", () => {
    const { core, next } = running()
    core.session.runner.closed("a")
    core.session.cancelWorkflow("e1")
    const later = core.restart()
    later.connectRunner("b", { nextSeq: next })
    expect(framesOf(later, "b")).toEqual(["abort"])
  })

  test.each(["ok", "failed", "cancelled"] as const)(
    "a cancelled run with the result %s is not aborted any more",
    (status) => {
      const { core, next } = running()
      core.session.cancelWorkflow("e1")
      core.session.runner.closed("a")
      const later = core.connectRunner("b", { nextSeq: next, settle: false })
      // Sent before the barrier: the hub has the result when it would send the abort.
      core.receive("b", { ...result(status), seq: later })
      const barrier = core.sent("b").find(({ type }) => type === "abort")
      core.receive("b", { ...barrier, type: "aborted", seq: later + 1 })
      core.receive("b", { type: "agentStatus", status: "idle", seq: later + 2 })
      expect(framesOf(core, "b")).toEqual([])
    },
  )

  test("a run that is cancelled before its order is sent is never ordered", () => {
    const core = createCore()
    core.session.orderWorkflow("e1", order())
    core.session.cancelWorkflow("e1")
    core.session.orderWorkflow("e1", order())
    core.session.orderWorkflow("e1/t", order("approve"))
    core.connectRunner("a")
    expect(framesOf(core, "a")).toEqual(["abort"])
  })

  test("a cancelled run that waits for approval is still denied", () => {
    const { core, next } = running()
    core.session.orderWorkflow("e1/t", order("deny"))
    core.session.cancelWorkflow("e1")
    core.session.orderWorkflow("e1/t", order("deny"))
    core.connectRunner("b", { nextSeq: next })
    expect(core.sent("b").filter(({ type }) => type === "workflow-execute")).toEqual([
      order("deny"),
    ] as never)
  })

  test("a cancelled run is aborted although the agent is not ready for prompts", () => {
    const { core, next } = running()
    core.receive("a", { type: "agentStatus", status: "error", detail: "restarts", seq: next })
    core.session.cancelWorkflow("e1")
    expect(framesOf(core, "a")).toEqual(["run", "abort"])
  })
})

describe("an order on a connection after the first", () => {
  const ordersTo = (core: Core, connection: string) =>
    core.sent(connection).filter(({ type }) => type === "workflow-execute")

  test("an order that no runner has accepted is sent again as it was", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.session.orderWorkflow("e1", order())
    core.session.runner.closed("a")
    core.connectRunner("b", { nextSeq: next })
    expect(ordersTo(core, "b")).toEqual([order()] as never)
  })

  test("an order that a runner has accepted is sent to the next runner as delivered, also after a restart of the hub", () => {
    const core = createCore()
    const next = core.connectRunner("a")
    core.session.orderWorkflow("e1", order())
    core.receive("a", { type: "workflow-accepted", executionId: "e1", seq: next })
    core.session.runner.closed("a")
    const later = core.restart()
    later.connectRunner("b", { epoch: "of another disk" })
    expect(ordersTo(later, "b")).toEqual([{ ...order(), delivered: true }] as never)
  })
})
