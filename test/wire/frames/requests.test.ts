/** Requests on the wire, as the operations table gives them. */
import { describe, expect, test } from "bun:test"
import {
  type Inbound,
  type Outbound,
  requestDeadlineMs,
  requestFrame,
  type RequestFields,
  type RequestResult,
  type RequestType,
} from "../../../src/wire/frames/index.ts"
import { wireRequests } from "../../../src/wire/operations/index.ts"
import { wireDeadlines } from "../operations/spec.ts"

test("every request has the deadline of the wire", () => {
  for (const { type } of wireRequests) {
    expect<number | undefined>(requestDeadlineMs(type)).toBe(wireDeadlines[type])
  }
})

describe("a request's frame", () => {
  test("carries the id and the fields beside the type", () => {
    const frame = requestFrame("memory-delete", "r1", { memoryId: "m1" })
    expect(frame).toEqual({ type: "memory-delete", requestId: "r1", memoryId: "m1" })
  })

  test("is not made for a type that is no request", () => {
    expect(() => requestFrame("complete", "r1", {})).toThrow("complete is not a request")
  })

  test("is not made of fields that do not fit", () => {
    expect(() => requestFrame("memory-delete", "r1", { memoryId: 1 })).toThrow("memoryId")
  })
})

test("the types of a request follow from the table", () => {
  const type: RequestType = "forward-messages"
  const fields: RequestFields<"forward-messages"> = { targetSessionId: "s2", limit: 3 }
  const result: RequestResult<"forward-messages"> = { count: 3, sourceSessionId: "s2" }
  const asked: Outbound<"forward-messages"> = { type, requestId: "r1", ...fields }
  const answered: Inbound<"forward-messages-result"> = {
    type: "forward-messages-result",
    requestId: "r1",
    ...result,
  }
  // @ts-expect-error a result has no such field
  const wrong: RequestResult<"forward-messages"> = { count: 3, sourceSessionId: "s2", counted: 3 }
  // @ts-expect-error there is no such request
  const unknown: RequestType = "no-such-request"
  expect([asked.targetSessionId, answered.count, wrong.count, unknown]).toEqual([
    "s2",
    3,
    3,
    "no-such-request",
  ])
})
