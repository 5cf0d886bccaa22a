/** Reading frames: strict on what is known, tolerant of the rest, silent about values. */
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

describe("text that is no frame", () => {
  test.each([
    ["not JSON", "{"],
    ["not JSON", ""],
    ["not an object", "[]"],
    ["not an object", "null"],
    ["not an object", '"prompt"'],
    ["type: must be a string", "{}"],
    ["type: must be a string", '{"type":1}'],
  ])("is refused as %s: %s", (problem, text) => {
    expect(parseInbound(text)).toEqual({ ok: false, problem })
  })

  test("is refused with its type when that is unknown", () => {
    const refused = { ok: false, problem: "unknown type", type: "no-such-thing", requestId: "r1" }
    expect(parse({ type: "no-such-thing", requestId: "r1" })).toEqual(refused)
    expect(parse({ type: "toString" })).toMatchObject({ problem: "unknown type" })
    expect(parse({ type: "__proto__" })).toMatchObject({ problem: "unknown type" })
  })

  test("never throws", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        expect(parseInbound(text).ok).toBe(false)
      }),
    )
  })

  test("never throws in the guise of a known type, whatever its fields hold", () => {
    const messages = [...inboundMessages, ...outboundMessages]
    const disguised = fc
      .constantFrom(...messages)
      .chain(({ type, schema }) =>
        fc
          .dictionary(fc.oneof(fc.constantFrom(...fieldsOf(schema)), fc.string()), fc.jsonValue())
          .map((fields) => JSON.stringify({ ...fields, type })),
      )
    fc.assert(
      fc.property(disguised, (text) => {
        for (const parsed of [parseInbound(text), parseOutbound(text)]) {
          if (!parsed.ok) expect(parsed.problem).not.toBe("")
        }
      }),
      { numRuns: 2000 },
    )
  })
})

describe("a malformed frame", () => {
  test("is refused with what is wrong and where", () => {
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

  test("is refused with the ids that its one answer needs", () => {
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
  ])("may be one with an attachment at %p", (url) => {
    const attachments = [{ type: "file", mime: "text/plain", url }]
    expect(parse({ ...prompt, attachments })).toMatchObject({ ok: false })
  })

  test("is refused without repeating any value of it", () => {
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

describe("a tolerant reader", () => {
  test("leaves out fields that it does not know, at any depth", () => {
    expect(parse({ ...prompt, mood: "good" })).toEqual({ ok: true, frame: prompt })
    expect(
      parse({ type: "opencode-config", config: { mood: "good", isOrchestrator: true } }),
    ).toEqual({
      ok: true,
      frame: { type: "opencode-config", config: { isOrchestrator: true } },
    })
  })

  test("takes a null for a field that is not there, at any depth", () => {
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

  test("takes a null for a missing field where one is needed", () => {
    expect(parse({ ...prompt, content: null, model: null })).toMatchObject({
      ok: false,
      problem: "content: expected string, received undefined",
    })
  })

  test("keeps a null that is part of an open payload", () => {
    const payload = { kind: "run", executionId: "e1", payload: { trigger: null } }
    expect(parse({ type: "workflow-execute", executionId: "e1", payload })).toMatchObject({
      frame: { payload: { payload: { trigger: null } } },
    })
  })
})

function fieldsOf(schema: object): string[] {
  return "shape" in schema && schema.shape ? Object.keys(schema.shape) : []
}
