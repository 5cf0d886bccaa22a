/** The messages of the session agent. */
import { describe, expect, test } from "bun:test"
import {
  inboundMessages,
  inboundTypes,
  isResult,
  parseInbound,
} from "../../../src/wire/frames/index.ts"
import { inboundSamples } from "./samples.ts"
import { inboundNames } from "./spec.ts"

const parse = (value: unknown): unknown => parseInbound(JSON.stringify(value))

describe("what the session agent may say", () => {
  test("is exactly the messages of the wire", () => {
    expect(inboundTypes.toSorted()).toEqual(inboundNames.toSorted())
  })

  test("has a sample for every type", () => {
    const sampled = new Set(inboundSamples.map(({ type }) => type))
    expect(inboundTypes.filter((type) => !sampled.has(type))).toEqual([])
  })

  test.each(inboundSamples)("is read in full: $type", (sample) => {
    expect(parse(sample)).toStrictEqual({ ok: true, frame: sample })
  })

  test.each([...inboundMessages])("is documented in one sentence: $type", ({ doc }) => {
    expect(doc).toMatch(/^[A-Z][^\n]*\.$/)
  })
})

describe("an answer to a request", () => {
  test("may have an error and nothing else", () => {
    const frame = { type: "create-pr-result", requestId: "r1", error: "no such branch" }
    expect(parse(frame)).toEqual({ ok: true, frame })
  })

  test("may have its fields empty beside the error", () => {
    const frame = { type: "create-pr-result", requestId: "r1", error: "no such branch" }
    expect(parse({ ...frame, number: null, url: null })).toEqual({ ok: true, frame })
  })

  test("may leave out the error, or give none", () => {
    const frame = { type: "task-my-result", requestId: "r1", tasks: [{ id: "k1", result: null }] }
    expect(parse({ ...frame, error: null })).toEqual({ ok: true, frame })
  })

  test("needs the id of its request, and fields of the right kind", () => {
    expect(parse({ type: "task-my-result", tasks: [] })).toMatchObject({ ok: false })
    expect(parse({ type: "task-my-result", requestId: "r1", tasks: {} })).toEqual({
      ok: false,
      type: "task-my-result",
      requestId: "r1",
      problem: "tasks: expected array, received object",
    })
  })

  test("is told from a command", () => {
    const verdicts = inboundSamples.map((sample) => {
      const parsed = parseInbound(JSON.stringify(sample))
      return parsed.ok && isResult(parsed.frame)
    })
    expect(verdicts).toEqual(inboundSamples.map(({ type }) => String(type).endsWith("-result")))
  })
})
