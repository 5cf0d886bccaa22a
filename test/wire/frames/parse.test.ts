/** Parsing frames: strict for known fields, tolerant of unknown ones, without values in errors. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  inboundMessages,
  outboundMessages,
  parseInbound,
  parseOutbound,
} from "../../../src/wire/frames/index.ts"
import { inboundSamples } from "./samples.ts"

const parse = (value: unknown): unknown => parseInbound(JSON.stringify(value))

const prompt = { type: "prompt", messageId: "m1", content: "Hello" }

describe("invalid text", () => {
  test.each([
    ["not JSON", "{"],
    ["not JSON", ""],
    ["not an object", "[]"],
    ["not an object", "null"],
    ["not an object", '"prompt"'],
    ["type: must be a string", "{}"],
    ["type: must be a string", '{"type":1}'],
  ])("a text is refused with %p: %s", (problem, text) => {
    expect(parseInbound(text)).toEqual({ ok: false, problem })
  })

  test("a frame of an unknown type is refused with its type and ids", () => {
    const refused = { ok: false, problem: "unknown type", type: "no-such-thing", requestId: "r1" }
    expect(parse({ type: "no-such-thing", requestId: "r1" })).toEqual(refused)
    expect(parse({ type: "toString" })).toMatchObject({ problem: "unknown type" })
    expect(parse({ type: "__proto__" })).toMatchObject({ problem: "unknown type" })
  })

  test("parsing any text does not throw", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        expect(parseInbound(text).ok).toBe(false)
      }),
    )
  })

  test("parsing a known type with any fields does not throw", () => {
    const messages = [...inboundMessages, ...outboundMessages]
    const knownTypes = fc
      .constantFrom(...messages)
      .chain(({ type, schema }) =>
        fc
          .dictionary(fc.oneof(fc.constantFrom(...fieldsOf(schema)), fc.string()), fc.jsonValue())
          .map((fields) => JSON.stringify({ ...fields, type })),
      )
    fc.assert(
      fc.property(knownTypes, (text) => {
        for (const parsed of [parseInbound(text), parseOutbound(text)]) {
          if (!parsed.ok) expect(parsed.problem).not.toBe("")
        }
      }),
      { numRuns: 2000 },
    )
  })
})

describe("malformed frame", () => {
  test("a malformed frame is refused with the field and the reason", () => {
    expect(parse({ ...prompt, content: 1 })).toMatchObject({
      ok: false,
      type: "prompt",
      problem: "content: expected string, received number",
    })
    expect(
      parse({ ...prompt, attachments: [{ type: "file", mime: "a/b", url: "x", filename: 1 }] }),
    ).toMatchObject({
      problem: "attachments.0.url: must be an http, https or data URL (and 1 more)",
    })
    expect(parse({ type: "answer", questionId: "q1", answer: 1 })).toMatchObject({
      problem: "answer: expected string or boolean",
    })
    expect(parse({ type: "opencode-config", config: { tools: { bash: "on" } } })).toMatchObject({
      problem: "config.tools.bash: expected boolean, received string",
    })
    expect(parse({ type: "permission-reply", permissionId: "p", reply: "never" })).toMatchObject({
      problem: 'reply: Invalid option: expected one of "once"|"always"|"reject"',
    })
    expect(parse({ type: "ack", seq: -1 })).toMatchObject({ ok: false, type: "ack" })
    expect(parse({ type: "welcome", protocol: 3, lastSeq: 0 })).toMatchObject({
      problem: "protocol: expected 2",
    })
  })

  test("a malformed frame is refused with the ids that a response needs", () => {
    expect(parse({ type: "prompt", messageId: "m1" })).toMatchObject({ messageId: "m1" })
    expect(parse({ type: "new-session", requestId: "r1" })).toMatchObject({ requestId: "r1" })
    expect(parse({ type: "new-session", requestId: 1 })).not.toHaveProperty("requestId")
    expect(parse({ type: "x".repeat(300) })).not.toHaveProperty("type")
  })

  test.each([
    "file:///etc/passwd",
    "ftp://example.com/x",
    "javascript:alert(1)",
    "/etc/passwd",
    "",
  ])("a prompt with an attachment at %p is refused", (url) => {
    const attachments = [{ type: "file", mime: "text/plain", url }]
    expect(parse({ ...prompt, attachments })).toMatchObject({ ok: false })
  })

  test("a malformed frame is refused without any of its values in the problem", () => {
    const secret = "s3cr3t"
    const texts = inboundSamples.flatMap((sample) =>
      Object.keys(sample)
        .filter((field) => !["type", "requestId", "messageId"].includes(field))
        .flatMap((field) => [
          JSON.stringify({ ...sample, [field]: secret }),
          JSON.stringify({ ...sample, [field]: [secret] }),
          JSON.stringify({ ...sample, [field]: { inner: secret } }),
        ]),
    )
    const refused = texts.map(parseInbound).filter(({ ok }) => !ok)
    expect(refused.length).toBeGreaterThan(100)
    expect(JSON.stringify(refused)).not.toContain(secret)
  })
})

describe("tolerant parsing", () => {
  test("unknown fields are removed at any depth", () => {
    expect(parse({ ...prompt, mood: "good" })).toEqual({ ok: true, frame: prompt })
    expect(
      parse({ type: "opencode-config", config: { mood: "good", isOrchestrator: true } }),
    ).toEqual({
      ok: true,
      frame: { type: "opencode-config", config: { isOrchestrator: true } },
    })
  })

  test("a null counts as an absent optional field at any depth", () => {
    const attachment = { type: "file", mime: "text/plain", url: "https://example.com/x" }
    expect(
      parse({
        ...prompt,
        model: null,
        channelType: null,
        steer: null,
        attachments: [{ ...attachment, filename: null }],
      }),
    ).toEqual({ ok: true, frame: { ...prompt, attachments: [attachment] } })
    expect(parse({ type: "opencode-config", config: { tools: null } })).toEqual({
      ok: true,
      frame: { type: "opencode-config", config: {} },
    })
  })

  test("a null in a required field is reported as a missing field", () => {
    expect(parse({ ...prompt, content: null, model: null })).toMatchObject({
      ok: false,
      problem: "content: expected string, received undefined",
    })
  })

  test("a null inside an open payload is kept", () => {
    const payload = { kind: "run", executionId: "e1", payload: { trigger: null } }
    expect(parse({ type: "workflow-execute", executionId: "e1", payload })).toMatchObject({
      frame: { payload: { payload: { trigger: null } } },
    })
  })
})

function fieldsOf(schema: object): string[] {
  return "shape" in schema && schema.shape ? Object.keys(schema.shape) : []
}
