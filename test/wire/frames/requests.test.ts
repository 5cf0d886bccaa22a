/** Request frames, derived from the operations table. */
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
import { ownRequestDocs, ownRequests } from "../../../src/wire/frames/own-requests.ts"
import { wireRequests } from "../../../src/wire/operations/index.ts"
import { wireDeadlines } from "../operations/spec.ts"

test("every request has its specified deadline", () => {
  for (const { type } of wireRequests) {
    expect<number | undefined>(requestDeadlineMs(type)).toBe(wireDeadlines[type])
  }
})

test("the runner's own requests have a deadline of 15 seconds and a doc", () => {
  for (const { type } of ownRequests) {
    expect(requestDeadlineMs(type)).toBe(15_000)
    expect(ownRequestDocs[type]).toMatch(/\.$/)
  }
})

describe("request frame", () => {
  test("a request frame has a type, an id and its fields", () => {
    const frame = requestFrame("memory-delete", "r1", { memoryId: "m1" })
    expect(frame).toEqual({ type: "memory-delete", requestId: "r1", memoryId: "m1" })
  })

  test("a type that is not a request is refused", () => {
    expect(() => requestFrame("complete", "r1", {})).toThrow("complete is not a request")
  })

  test("fields that do not match the request are refused", () => {
    expect(() => requestFrame("memory-delete", "r1", { memoryId: 1 })).toThrow("memoryId")
  })
})

test("the TypeScript types of a request are derived from the table", () => {
  const type: RequestType = "forward-messages"
  const fields: RequestFields<"forward-messages"> = { targetSessionId: "s2", limit: 3 }
  const result: RequestResult<"forward-messages"> = { count: 3, sourceSessionId: "s2" }
  const request: Outbound<"forward-messages"> = { type, requestId: "r1", ...fields }
  const response: Inbound<"forward-messages-result"> = {
    type: "forward-messages-result",
    requestId: "r1",
    ...result,
  }
  // @ts-expect-error a result has no such field
  const wrong: RequestResult<"forward-messages"> = { count: 3, sourceSessionId: "s2", counted: 3 }
  // @ts-expect-error there is no such request
  const unknown: RequestType = "no-such-request"
  expect([request.targetSessionId, response.count, wrong.count, unknown]).toEqual([
    "s2",
    3,
    3,
    "no-such-request",
  ])
})
