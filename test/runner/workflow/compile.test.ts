/** Workflow definitions: validation, defaults, ids and the hash. */
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

describe("steps without ids", () => {
  test("a step without an id gets one from its position, also inside other steps", () => {
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

  test("a workflow has the same hash with and without generated ids written out", () => {
    const { hash } = of({ type: "bash", command: "true" })
    expect(of({ type: "bash", command: "true", id: "step-1" }).hash).toBe(hash)
    expect(hash).toMatch(/^sha256:[0-9a-f]{64}$/)
    expect(of({ type: "bash", command: "false" }).hash).not.toBe(hash)
  })
})

test("omitted fields get the defaults of the format", () => {
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

describe("definitions that are not valid", () => {
  test.each([
    ["a definition that is not an object", () => compile(7), "object with steps"],
    ["a definition without steps", () => compile({}), "steps: must be a list"],
    [
      "a step with an unknown type",
      () => of({ type: "email" }),
      "steps.0.type: is not a known step type",
    ],
    [
      "a bash step without a command",
      () => of({ type: "bash" }),
      "steps.0.command: must be a text",
    ],
    [
      "a timeout above ten minutes",
      () => of({ type: "bash", command: "x", timeoutMs: 600_001 }),
      "steps.0.timeoutMs: must be at most 600000",
    ],
    [
      "a nested step with an error",
      () => of({ type: "conditional", condition: true, else: [{ type: "tool" }] }),
      "steps.0.else.0.tool",
    ],
    [
      "a malformed condition",
      () => of({ type: "conditional", condition: "x" }),
      "condition: must be true, false or {variable, equals}",
    ],
    [
      "a loop without over and times",
      () => of({ type: "loop", steps: [] }),
      "needs either over or times",
    ],
    ["a message without content", () => of({ type: "agent_message" }), "content: is missing"],
    [
      "a reply timeout below a second",
      () => of({ type: "agent_message", content: "x", await_timeout_ms: 10 }),
      "must be at least 1000",
    ],
    [
      "a subworkflow without a workflow",
      () => of({ type: "subworkflow" }),
      "workflow or workflowId",
    ],
    ["an id with a space", () => of({ type: "approval", id: "a b" }), "steps.0.id: must be a name"],
    [
      "two steps with the same id",
      () =>
        of(
          { type: "approval", id: "a" },
          { type: "parallel", steps: [{ type: "approval", id: "a" }] },
        ),
      "two steps have the id a",
    ],
  ])("%s is rejected with its path and the reason", (_what, make, message) => {
    expect(make).toThrow(message)
  })
})

test("one error contains all problems of a definition", () => {
  expect(problem({ type: "bash" }, { type: "agent" })).toMatch(/steps\.0.*\n.*steps\.1/s)
})

test("the hash does not depend on the order of keys, and any value is either accepted or rejected with a message", () => {
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
