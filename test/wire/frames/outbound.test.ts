/** The messages of the runner. */
import { describe, expect, test } from "bun:test"
import { operations } from "../../../src/wire/operations/index.ts"
import {
  isRequest,
  type Outbound,
  outboundMessages,
  outboundTypes,
  parseOutbound,
} from "../../../src/wire/frames/index.ts"
import { sampleOf } from "../operations/samples.ts"
import { outboundSamples } from "./samples.ts"
import { outboundNames, requestNames } from "./spec.ts"

const parse = (value: unknown): unknown => parseOutbound(JSON.stringify(value))

describe("what the runner may say", () => {
  test("is exactly the messages of the wire", () => {
    expect(outboundTypes.toSorted()).toEqual(outboundNames.toSorted())
  })

  test("has a sample for every type", () => {
    const sampled = new Set(outboundSamples.map(({ type }) => type))
    expect(outboundTypes.filter((type) => !sampled.has(type))).toEqual([])
  })

  test.each(outboundSamples)("arrives as it was sent: $type", (sample) => {
    expect(parse(sample)).toEqual({ ok: true, frame: sample })
  })

  test.each([...outboundMessages])("is documented: $type", ({ doc }) => {
    expect(doc).toMatch(/^[A-Z][^\n]*\.$/)
  })

  test("is a request exactly when its type is in the table of requests", () => {
    for (const sample of outboundSamples) {
      const parsed = parseOutbound(JSON.stringify(sample))
      if (!parsed.ok) throw new Error(parsed.problem)
      expect(isRequest(parsed.frame)).toBe(requestNames.includes(parsed.frame.type))
    }
  })
})

describe("the place in the stream", () => {
  test("may be on every frame but hello and ping, and is optional there", () => {
    for (const sample of outboundSamples) {
      const placed = parseOutbound(JSON.stringify({ ...sample, seq: 9 }))
      const isPlaced = sample["type"] !== "hello" && sample["type"] !== "ping"
      expect(placed.ok && "seq" in placed.frame).toBe(isPlaced)
      expect(parse({ ...sample, seq: undefined })).toMatchObject({ ok: true })
    }
  })

  test("is a whole number", () => {
    expect(parse({ type: "complete", seq: 1.5 })).toMatchObject({ ok: false, type: "complete" })
    expect(parse({ type: "complete", seq: "1" })).toMatchObject({ ok: false, type: "complete" })
  })
})

describe("a frame as protocol 1 has it", () => {
  test.each([
    { type: "message.create", turnId: "t1" },
    { type: "message.part.text-delta", turnId: "t1", delta: "Hi" },
    {
      type: "message.part.tool-update",
      turnId: "t1",
      callId: "c",
      toolName: "t",
      status: "running",
    },
    { type: "message.finalize", turnId: "t1", reason: "end_turn" },
    { type: "question", questionId: "q1", text: "Which?" },
    { type: "error", messageId: "m1", error: "no" },
    { type: "complete" },
    { type: "aborted" },
    { type: "agentStatus", status: "idle" },
    { type: "model-switched", messageId: "m1", fromModel: "a", toModel: "b", reason: "r" },
  ])("needs none of the later fields: $type", (frame) => {
    expect(parse(frame)).toEqual({ ok: true, frame })
  })
})

describe("an operation that tells the session agent something", () => {
  for (const { name, input, served } of operations) {
    if (served.by !== "frame") continue
    test(`${name} sends a frame of the wire, whatever it leaves out`, () => {
      const inputs = [sampleOf(name).input, name === "send-image" ? { data: "AA==" } : {}]
      for (const sample of inputs) {
        const fields = served.toFields(input.parse(sample))
        expect(parse({ type: served.frame, ...fields })).toMatchObject({ ok: true })
      }
    })
  }

  test("loses none of its fields on the way", () => {
    const image = operations.find(({ name }) => name === "send-image")?.served
    if (image?.by !== "frame") throw new Error("send-image tells the session agent")
    const frame = { type: "screenshot", data: "AA==", description: "d", mimeType: "image/png" }
    const { type, ...input } = frame
    expect(parse({ type, ...image.toFields(input) })).toEqual({ ok: true, frame })
  })
})

test("a pull request that was opened is announced with a frame of the wire", () => {
  const announcing = operations.filter(({ served }) => served.by === "session" && served.announce)
  expect(announcing.map(({ name }) => name)).toEqual(["create-pull-request"])
  const served = announcing[0]?.served
  if (served?.by !== "session" || !served.announce) throw new Error("announces nothing")
  const opened = { number: 7, url: "https://git.example/7", title: "Fix", state: "open" }
  const frame: Outbound<"pr-created"> = {
    type: "pr-created",
    number: 7,
    url: "https://git.example/7",
    title: "Fix",
    status: "open",
  }
  expect(parse({ type: served.announce.frame, ...served.announce.toFields(opened) })).toEqual({
    ok: true,
    frame,
  })
})
