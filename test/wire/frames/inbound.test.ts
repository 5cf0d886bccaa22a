/** Frames from the session agent. */
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

describe("inbound frames", () => {
  test("the inbound table has exactly the specified frame types", () => {
    expect(inboundTypes.toSorted()).toEqual(inboundNames.toSorted())
  })

  test("every inbound frame type has a sample", () => {
    const sampled = new Set(inboundSamples.map(({ type }) => type))
    expect(inboundTypes.filter((type) => !sampled.has(type))).toEqual([])
  })

  test.each(inboundSamples)("the inbound frame $type is parsed with all fields", (sample) => {
    expect(parse(sample)).toStrictEqual({ ok: true, frame: sample })
  })

  test.each([...inboundMessages])(
    "the inbound frame $type is documented in one line",
    ({ doc }) => {
      expect(doc).toMatch(/^[A-Z][^\n]*\.$/)
    },
  )
})

describe("git credentials", () => {
  test("a token that would be more than one line of git's credential protocol is refused without its text", () => {
    for (const token of ["", "two words", "a\nusername=other"]) {
      const parsed = parseInbound(JSON.stringify({ type: "git-credentials", token }))
      expect(parsed.ok).toBe(false)
      expect(JSON.stringify(parsed)).not.toContain("other")
    }
  })
})

describe("result of a request", () => {
  test("a result may have an error and no other field", () => {
    const frame = { type: "create-pr-result", requestId: "r1", error: "no such branch" }
    expect(parse(frame)).toEqual({ ok: true, frame })
  })

  test("a result with an error may have null fields", () => {
    const frame = { type: "create-pr-result", requestId: "r1", error: "no such branch" }
    expect(parse({ ...frame, number: null, url: null })).toEqual({ ok: true, frame })
  })

  test("a null error counts as no error", () => {
    const frame = { type: "task-my-result", requestId: "r1", tasks: [{ id: "k1", result: null }] }
    expect(parse({ ...frame, error: null })).toEqual({ ok: true, frame })
  })

  test("a result without a request id or with a field of the wrong type is refused", () => {
    expect(parse({ type: "task-my-result", tasks: [] })).toMatchObject({ ok: false })
    expect(parse({ type: "task-my-result", requestId: "r1", tasks: {} })).toEqual({
      ok: false,
      type: "task-my-result",
      requestId: "r1",
      problem: "tasks: expected array, received object",
    })
  })

  test("isResult is true for exactly the types that end in -result", () => {
    const results = inboundSamples.map((sample) => {
      const parsed = parseInbound(JSON.stringify(sample))
      return parsed.ok && isResult(parsed.frame)
    })
    expect(results).toEqual(inboundSamples.map(({ type }) => String(type).endsWith("-result")))
  })
})
