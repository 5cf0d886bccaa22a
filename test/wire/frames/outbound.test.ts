/** Frames from the runner. */
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

describe("outbound frames", () => {
  test("the outbound table has exactly the specified frame types", () => {
    expect(outboundTypes.toSorted()).toEqual(outboundNames.toSorted())
  })

  test("every outbound frame type has a sample", () => {
    const sampled = new Set(outboundSamples.map(({ type }) => type))
    expect(outboundTypes.filter((type) => !sampled.has(type))).toEqual([])
  })

  test.each(outboundSamples)("the outbound frame $type is parsed with all fields", (sample) => {
    expect(parse(sample)).toEqual({ ok: true, frame: sample })
  })

  test.each([...outboundMessages])(
    "the outbound frame $type is documented in one line",
    ({ doc }) => {
      expect(doc).toMatch(/^[A-Z][^\n]*\.$/)
    },
  )

  test("isRequest is true for exactly the request types", () => {
    for (const sample of outboundSamples) {
      const parsed = parseOutbound(JSON.stringify(sample))
      if (!parsed.ok) throw new Error(parsed.problem)
      expect(isRequest(parsed.frame)).toBe(requestNames.includes(parsed.frame.type))
    }
  })
})

describe("seq", () => {
  test("every outbound frame except hello and ping may have a seq", () => {
    for (const sample of outboundSamples) {
      const parsed = parseOutbound(JSON.stringify({ ...sample, seq: 9 }))
      const hasSeq = sample["type"] !== "hello" && sample["type"] !== "ping"
      expect(parsed.ok && "seq" in parsed.frame).toBe(hasSeq)
      expect(parse({ ...sample, seq: undefined })).toMatchObject({ ok: true })
    }
  })

  test("a seq that is not an integer is refused", () => {
    expect(parse({ type: "complete", seq: 1.5 })).toMatchObject({ ok: false, type: "complete" })
    expect(parse({ type: "complete", seq: "1" })).toMatchObject({ ok: false, type: "complete" })
  })
})

describe("frames of protocol 1", () => {
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
  ])("the frame $type is valid without the fields that protocol 2 added", (frame) => {
    expect(parse(frame)).toEqual({ ok: true, frame })
  })
})

describe("operation that sends a frame", () => {
  for (const { name, input, served } of operations) {
    if (served.by !== "frame") continue
    test(`the operation ${name} sends a valid frame with all and with minimal input`, () => {
      const inputs = [sampleOf(name).input, name === "send-image" ? { data: "AA==" } : {}]
      for (const sample of inputs) {
        const fields = served.toFields(input.parse(sample))
        expect(parse({ type: served.frame, ...fields })).toMatchObject({ ok: true })
      }
    })
  }

  test("an image keeps all its fields in the frame", () => {
    const image = operations.find(({ name }) => name === "send-image")?.served
    if (image?.by !== "frame") throw new Error("send-image does not send a frame")
    const frame = { type: "screenshot", data: "AA==", description: "d", mimeType: "image/png" }
    const { type, ...input } = frame
    expect(parse({ type, ...image.toFields(input) })).toEqual({ ok: true, frame })
  })
})

test("an opened pull request is announced with a valid pr-created frame", () => {
  const announcing = operations.filter(({ served }) => served.by === "session" && served.announce)
  expect(announcing.map(({ name }) => name).toSorted()).toEqual([
    "create-pull-request",
    "spawn-session",
  ])
  const served = announcing.find(({ name }) => name === "create-pull-request")?.served
  if (served?.by !== "session" || !served.announce)
    throw new Error("create-pull-request announces nothing")
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

test("a started child session is announced with a valid child-session frame", () => {
  const served = operations.find(({ name }) => name === "spawn-session")?.served
  if (served?.by !== "session" || !served.announce)
    throw new Error("spawn-session announces nothing")
  const { frame, toFields } = served.announce
  const announced = { type: frame, ...toFields({ childSessionId: "c1" }) }
  expect(parse(announced)).toEqual({
    ok: true,
    frame: { type: "child-session", childSessionId: "c1" },
  })
})
