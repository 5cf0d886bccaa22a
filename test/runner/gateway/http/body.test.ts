/** The end of a body does not depend on how its bytes are cut into packets. */
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

/** Reads the bytes in packets of these sizes; the rest belongs to the next message. */
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

describe("a body that is cut into packets", () => {
  test("chunks are decoded to their data, however they are cut", () => {
    fc.assert(
      fc.property(fc.array(bytes), cuts, (parts, sizes) => {
        const wire = Buffer.concat([chunked(parts), Buffer.from("NEXT")])
        const result = read({ kind: "chunked" }, "decoded", wire, sizes)
        expect(result.out.equals(Buffer.concat(parts))).toBe(true)
        expect([result.rest.endsWith("NEXT"), result.done]).toEqual([true, true])
      }),
    )
  })
  test("chunks in verbatim form are passed on unchanged except for their trailers, however they are cut", () => {
    fc.assert(
      fc.property(fc.array(bytes), cuts, (parts, sizes) => {
        const wire = chunked(parts, "X-Trailer: 1\r\nX-Other: 2\r\n")
        const result = read({ kind: "chunked" }, "verbatim", wire, sizes)
        expect(result.out.equals(chunked(parts))).toBe(true)
        expect(result.done).toBe(true)
      }),
    )
  })
  test("a body with a length ends exactly after its length, however it is cut", () => {
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

test("a message without a body consumes nothing, and a body until the end of the connection consumes everything", () => {
  expect(read({ kind: "none" }, "verbatim", Buffer.from("x"), [1])).toMatchObject({
    rest: "x",
    done: true,
  })
  expect(read({ kind: "until-close" }, "verbatim", Buffer.from("xyz"), [2])).toMatchObject({
    rest: "",
    done: false,
  })
})
