/** Workflows as they are written: what is taken, what is refused with which words, and what their hash depends on. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { compile } from "../../../src/runner/workflow/compile.ts"
import { canonical } from "../../../src/wire/workflow/canonical.ts"

const of = (...steps: readonly unknown[]) => compile({ steps })
const problem = (...steps: readonly unknown[]): string => {
  try {
    of(...steps)
    return "none"
  } catch (error) {
    return (error as Error).message
  }
}

describe("a step without an id", () => {
  test("is named after its place, also within others", () => {
    const { steps } = of(
      { type: "bash", command: "true" },
      { type: "conditional", id: "c", condition: true, then: [{ type: "bash", command: "x" }] },
      { type: "loop", times: 1, steps: [{ type: "parallel", steps: [{ type: "approval" }] }] },
    )
    const text = JSON.stringify(steps)
    for (const id of ["step-1", "c-then-1", "step-3", "step-3-steps-1", "step-3-steps-1-steps-1"]) {
      expect(text).toContain(`"id":"${id}"`)
    }
  })

  test("has the hash that it has with that id written out", () => {
    const { hash } = of({ type: "bash", command: "true" })
    expect(of({ type: "bash", command: "true", id: "step-1" }).hash).toBe(hash)
    expect(hash).toMatch(/^sha256:[0-9a-f]{64}$/)
    expect(of({ type: "bash", command: "false" }).hash).not.toBe(hash)
  })
})

test("defaults are those of the format", () => {
  const { steps } = of(
    { type: "bash", command: "x" },
    { type: "approval" },
    { type: "loop", times: 2, steps: [] },
    { type: "agent_message", message: "hi", awaitResponse: true },
  )
  expect(steps).toMatchObject([
    { timeoutMs: 120_000 },
    { items: [] },
    { maxIterations: 100, itemVariable: "item" },
    { content: "hi", interrupt: false, awaitResponse: true },
  ])
})

describe("is refused, with its place and why:", () => {
  test.each([
    ["what is no workflow", () => compile(7), "object with steps"],
    ["no steps", () => compile({}), "steps: must be a list"],
    ["an unknown type", () => of({ type: "email" }), "steps.0.type: is not a known step type"],
    ["a command that is missing", () => of({ type: "bash" }), "steps.0.command: must be a text"],
    [
      "a limit above ten minutes",
      () => of({ type: "bash", command: "x", timeoutMs: 600_001 }),
      "steps.0.timeoutMs: must be at most 600000",
    ],
    [
      "a step deep inside",
      () => of({ type: "conditional", condition: true, else: [{ type: "tool" }] }),
      "steps.0.else.0.tool",
    ],
    [
      "a condition of another form",
      () => of({ type: "conditional", condition: "x" }),
      "condition: must be true, false or {variable, equals}",
    ],
    ["a loop over nothing", () => of({ type: "loop", steps: [] }), "needs either over or times"],
    ["a message without words", () => of({ type: "agent_message" }), "content: is missing"],
    [
      "waiting less than a second",
      () => of({ type: "agent_message", content: "x", await_timeout_ms: 10 }),
      "must be at least 1000",
    ],
    ["a subworkflow of nothing", () => of({ type: "subworkflow" }), "workflow or workflowId"],
    [
      "an id that no text could name",
      () => of({ type: "approval", id: "a b" }),
      "steps.0.id: must be a name",
    ],
    [
      "two steps of one id",
      () =>
        of(
          { type: "approval", id: "a" },
          { type: "parallel", steps: [{ type: "approval", id: "a" }] },
        ),
      "two steps have the id a",
    ],
  ])("%s", (_what, make, words) => {
    expect(make).toThrow(words)
  })
})

test("several problems are told at once", () => {
  expect(problem({ type: "bash" }, { type: "agent" })).toMatch(/steps\.0.*\n.*steps\.1/s)
})

test("the hash does not depend on the order of keys, and nothing that is written throws anything but words", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const shuffled = (one: unknown): unknown => {
        if (Array.isArray(one)) return one.map(shuffled)
        if (typeof one !== "object" || one === null) return one
        return Object.fromEntries(
          Object.entries(one)
            .toReversed()
            .map(([key, inner]) => [key, shuffled(inner)]),
        )
      }
      expect(canonical(shuffled(value))).toBe(canonical(value))
      const step = { type: "tool", tool: "x", arguments: { value } }
      expect(of(shuffled(step)).hash).toBe(of(step).hash)
      expect(problem(value)).toBeString()
    }),
  )
})
