/** The stored text of a turn equals its final text, after any retries, failovers, cuts and restarts, on both SQL hosts. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { fileURLToPath } from "node:url"
import * as fc from "fast-check"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import { createCore } from "../kit/core.ts"
import { startTestWorker, type TestWorker } from "../kit/workerd.ts"
import { type PlayedTurn, playTurn, type TurnStep } from "./turn-script.ts"

const text = fc.string({ unit: "binary", minLength: 1, maxLength: 12 })

const step: fc.Arbitrary<TurnStep> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant("delta"), part: fc.nat(2), text }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("reasoning"), part: fc.nat(1), text }) },
  { weight: 1, arbitrary: fc.constant({ do: "tool" }) },
  { weight: 3, arbitrary: fc.constant({ do: "retry" }) },
  { weight: 1, arbitrary: fc.constant({ do: "failover" }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cut"), lost: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.constant({ do: "kill" }) },
  { weight: 2, arbitrary: fc.constant({ do: "wait" }) },
  { weight: 1, arbitrary: fc.constant({ do: "resume" }) },
)

const steps = fc.array(step, { maxLength: 40 })

const expectFinalTexts = ({ messages, retryStates }: PlayedTurn) => {
  expect(messages.map(({ id, stored }) => [id, stored])).toEqual(
    messages.map(({ id, finalText }) => [id, finalText]),
  )
  expect(messages.map(({ id, client }) => [id, client])).toEqual(
    messages.map(({ id, finalText }) => [id, finalText]),
  )
  expect(retryStates).toEqual([])
}

describe("the text of a turn", () => {
  test("on bun:sqlite the stored text and the client's text equal the final text after any sequence", () => {
    fc.assert(
      fc.property(steps, (played) => {
        const sql = openBunSql(":memory:")
        expectFinalTexts(playTurn(sql, played))
        sql.close()
      }),
      { numRuns: 300 },
    )
  })

  test("a retry withdraws the half answer at clients at once, and the retry's state ends with the turn", () => {
    const core = createCore()
    const seq = core.connectRunner("c1")
    const address = { turnId: "t1", messageId: "p1", channelType: "web", channelId: "default" }
    const half = { type: "message.part.text-delta", partId: "a", delta: "Half of an ans" }
    core.receive("c1", { ...half, ...address, seq })
    core.receive("c1", {
      type: "retry",
      attempt: 1,
      next: 1,
      message: "overloaded",
      droppedParts: ["a"],
      ...address,
      seq: seq + 1,
    })
    expect(core.broadcasts.map(({ type, partId }) => [type, partId])).toContainEqual([
      "part.removed",
      "a",
    ])
    expect(core.session.snapshot().state).toMatchObject({ "retry:t1": { attempt: 1 } })
    const whole = { type: "message.part.text-delta", partId: "b", delta: "The whole answer." }
    core.receive("c1", { ...whole, ...address, seq: seq + 2 })
    const final = { type: "message.finalize", reason: "end_turn", finalText: "The whole answer." }
    core.receive("c1", { ...final, ...address, seq: seq + 3 })
    const { messages, state } = core.session.snapshot()
    expect(messages[0]?.parts.map((part) => part.text)).toEqual(["The whole answer."])
    expect(state).not.toHaveProperty("retry:t1")
    expect(core.broadcasts.at(-1)).toMatchObject({ type: "state", name: "retry:t1", value: null })
  })

  test("a final text that differs from several stored parts replaces them in place", () => {
    const core = createCore()
    let seq = core.connectRunner("c1")
    const address = { turnId: "t1", messageId: "p1", channelType: "web", channelId: "default" }
    const send = (frame: object) => {
      core.receive("c1", { ...frame, ...address, seq })
      seq += 1
    }
    send({ type: "message.part.text-delta", partId: "a", delta: "Kept. " })
    send({ type: "message.part.text-delta", partId: "b", delta: "Wrong" })
    send({
      type: "message.part.tool-update",
      callId: "call",
      toolName: "bash",
      status: "completed",
    })
    send({ type: "message.part.text-delta", partId: "c", delta: " end" })
    send({ type: "message.finalize", reason: "end_turn", finalText: "Kept. Right end" })
    const [message] = core.session.snapshot().messages
    expect(message?.parts.map(({ id, text: stored }) => [id, stored])).toEqual([
      ["a", "Kept. "],
      ["b", "Right end"],
      ["call", undefined],
    ])
  })
})

describe("the text of a turn in a Durable Object", () => {
  let workerd: TestWorker
  beforeAll(async () => {
    workerd = await startTestWorker(
      fileURLToPath(import.meta.resolve("./turn-script-program.ts")),
      "TurnObject",
    )
  })
  afterAll(() => workerd.stop())

  test("on a Durable Object's SQLite the stored text and the client's text equal the final text after any sequence", async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (played) => {
        const response = await workerd.worker.dispatchFetch("http://worker/", {
          method: "POST",
          body: JSON.stringify(played),
        })
        expectFinalTexts((await response.json()) as PlayedTurn)
      }),
      { numRuns: 60 },
    )
  })
})
