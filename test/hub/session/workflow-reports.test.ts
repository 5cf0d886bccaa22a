/** The result of a workflow run reaches the shared store in order, also when the store fails or the host is restarted. */
import { expect, test } from "bun:test"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import { createManualClock } from "../../kit/clock.ts"
import { createCore } from "../kit/core.ts"

const start = (reported: (execution: string, id: string) => Promise<void>) =>
  createCore(openBunSql(":memory:"), createManualClock(1_000_000), undefined, new Map(), {
    workflowReported: (execution, _envelope, id) => reported(execution, id),
  })
const result = (executionId: string, seq: number) => ({
  type: "workflow-execution-result",
  executionId,
  envelope: { ok: true, status: "ok", executionId },
  seq,
})
// Sleep: yields to the event loop so that the promises of the reports settle.
const settle = () => Bun.sleep(0)

test("a result that the store does not take is sent again by the alarm, before the results after it", async () => {
  const calls: string[] = []
  const core = start(async (execution) => {
    calls.push(execution)
    if (calls.length < 3) throw new Error("unreachable")
  })
  const next = core.connectRunner("a")
  core.receive("a", result("e1", next))
  core.receive("a", result("e2", next + 1))
  await settle()
  expect(calls).toEqual(["e1"])
  core.clock.advance(500)
  await settle()
  expect(calls).toEqual(["e1", "e1"])
  core.clock.advance(1000)
  await settle()
  expect(calls).toEqual(["e1", "e1", "e1", "e2"])
  core.clock.advance(3_600_000)
  await settle()
  expect(calls).toHaveLength(4)
})

test("a result that was not confirmed before a restart is sent again with the same id", async () => {
  const ids: string[] = []
  const core = start((_execution, id) => {
    ids.push(id)
    return ids.length === 1 ? new Promise(() => {}) : Promise.resolve()
  })
  core.receive("a", result("e1", core.connectRunner("a")))
  await settle()
  core.restart().session.recover([])
  await settle()
  expect(ids).toEqual(["e1/id-2", "e1/id-2"])
})

test("a result that the store never takes ends with a system message after twelve attempts", async () => {
  let calls = 0
  const core = start(async () => {
    calls += 1
    throw new Error("unreachable")
  })
  core.receive("a", result("e1", core.connectRunner("a")))
  for (let hour = 0; hour < 20; hour += 1) {
    await settle()
    core.clock.advance(3_600_000)
  }
  expect(calls).toBe(12)
  const errors = core.session.snapshot().messages.map(({ error }) => error)
  expect(errors).toContain("the result of the workflow run e1 could not be stored and is lost")
})
