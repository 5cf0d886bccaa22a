/** Where a body ends does not depend on how its bytes were cut into packets. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { readBody, startBody } from "../../../../src/runner/gateway/http/body.ts"
import type { Framing } from "../../../../src/runner/gateway/http/head.ts"

const chunked = (parts: readonly Uint8Array[], trailer = ""): Buffer =>
  Buffer.concat([
    ...parts.flatMap((part) => [
      Buffer.from(`${part.length.toString(16)}\r\n`),
      part,
      Buffer.from("\r\n"),
    ]),
    Buffer.from(`0\r\n${trailer}\r\n`),
  ])

/** Feeds the bytes in pieces of these sizes; what is left over belongs to the next message. */
const read = (
  framing: Framing,
  form: "verbatim" | "decoded",
  bytes: Buffer,
  cuts: readonly number[],
) => {
  let state = startBody(framing, form)
  const out: Buffer[] = []
  let at = 0
  let cut = 0
  while (at < bytes.length && state.kind !== "done") {
    const size = Math.max(1, cuts[cut % Math.max(1, cuts.length)] ?? 1)
    cut += 1
    const progress = readBody(state, bytes.subarray(at, at + size))
    state = progress.state
    at += progress.consumed
    out.push(...progress.pieces)
  }
  return {
    out: Buffer.concat(out),
    rest: bytes.subarray(at).toString("latin1"),
    done: state.kind === "done",
  }
}

const bytes = fc.uint8Array({ minLength: 1, maxLength: 40 })
const cuts = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 })

describe("whatever the packets", () => {
  test("chunks are decoded to what they hold", () => {
    fc.assert(
      fc.property(fc.array(bytes), cuts, (parts, sizes) => {
        const wire = Buffer.concat([chunked(parts), Buffer.from("NEXT")])
        const result = read({ kind: "chunked" }, "decoded", wire, sizes)
        expect(result.out.equals(Buffer.concat(parts))).toBe(true)
        expect([result.rest.endsWith("NEXT"), result.done]).toEqual([true, true])
      }),
    )
  })
  test("chunks that are passed on are what came, without trailers", () => {
    fc.assert(
      fc.property(fc.array(bytes), cuts, (parts, sizes) => {
        const wire = chunked(parts, "X-Trailer: 1\r\nX-Other: 2\r\n")
        const result = read({ kind: "chunked" }, "verbatim", wire, sizes)
        expect(result.out.equals(chunked(parts))).toBe(true)
        expect(result.done).toBe(true)
      }),
    )
  })
  test("a counted body takes its bytes and not one more", () => {
    fc.assert(
      fc.property(bytes, cuts, (body, sizes) => {
        const wire = Buffer.concat([body, Buffer.from("NEXT")])
        const result = read({ kind: "length", length: body.length }, "verbatim", wire, sizes)
        expect(result.out.equals(Buffer.from(body))).toBe(true)
        expect(result.done).toBe(true)
      }),
    )
  })
})

test("no body takes nothing, and one until the end takes all", () => {
  expect(read({ kind: "none" }, "verbatim", Buffer.from("x"), [1])).toMatchObject({
    rest: "x",
    done: true,
  })
  expect(read({ kind: "until-close" }, "verbatim", Buffer.from("xyz"), [2])).toMatchObject({
    rest: "",
    done: false,
  })
})
