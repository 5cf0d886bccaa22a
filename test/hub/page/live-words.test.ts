/** What a screen reader hears while the agent works. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  type Heard,
  initialLive,
  type LiveState,
  stepLive,
} from "../../../src/hub/page/shell/live-words.ts"

const idle: Heard = { now: 0, isWorking: false, isThinking: false }
const busy: Heard = { ...idle, isWorking: true }

/** All that is said, in order. */
const hear = (...all: readonly Heard[]): readonly string[] => {
  const said: string[] = []
  let state: LiveState = initialLive
  for (const heard of all) {
    const [next, { polite, assertive }] = stepLive(state, heard)
    state = next
    said.push(...[polite, assertive].flatMap((words) => words ?? []))
  }
  return said
}

describe("a screen reader", () => {
  test("hears that the agent works and how its answer begins", () => {
    const text = "x".repeat(500)
    expect(hear(idle, busy, busy, { ...idle, reply: { text } })).toEqual([
      "The agent works",
      `Done. ${"x".repeat(200)}`,
    ])
  })

  test("hears Thinking at most every 20 seconds", () => {
    const thinking = (now: number): Heard => ({ ...busy, now, isThinking: true })
    expect(hear(thinking(0), thinking(5000), thinking(19_999))).toEqual(["The agent works"])
    expect(hear(thinking(0), thinking(20_000), thinking(30_000), thinking(40_000))).toEqual([
      "The agent works",
      "Thinking",
      "Thinking",
    ])
  })

  test("hears once that a command failed", () => {
    const failed = { ...busy, failed: { id: "c1", subject: "Ran npm test" } }
    expect(hear(busy, failed, failed)).toEqual(["The agent works", "Ran npm test, failed"])
  })

  test("hears a question, a permission and a failed turn at once", () => {
    const asked = (id: string, kind: "question" | "permission"): Heard => ({
      ...busy,
      asked: { id, kind, text: "Go on?" },
    })
    expect(hear(busy, asked("a", "question"), asked("a", "question"), busy)).toEqual([
      "The agent works",
      "The agent asks: Go on?",
    ])
    expect(hear(busy, asked("b", "permission")).at(-1)).toBe("Permission needed: Go on?")
    expect(hear(busy, { ...idle, reply: { text: "half", error: "no credit" } })).toEqual([
      "The agent works",
      "The turn failed. no credit",
    ])
  })

  test("hears nothing while words stream in", () => {
    fc.assert(
      fc.property(fc.array(fc.string(), { maxLength: 20 }), (texts) => {
        const streamed = texts.map((text): Heard => ({ ...busy, reply: { text } }))
        expect(hear(busy, ...streamed)).toEqual(["The agent works"])
      }),
    )
  })
})
