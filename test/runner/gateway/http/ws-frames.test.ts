/** The end of a WebSocket frame does not depend on how its bytes are cut into packets. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { closeFrame, createFrameFinder } from "../../../../src/runner/gateway/http/ws-frames.ts"

interface Frame {
  readonly opcode: number
  readonly length: number
  readonly masked: boolean
}

const bytesOf = ({ opcode, length, masked }: Frame): Buffer => {
  const mask = masked ? 0x80 : 0
  const head =
    length < 126
      ? Buffer.from([opcode, mask | length])
      : length < 65_536
        ? Buffer.from([opcode, mask | 126, length >> 8, length & 255])
        : Buffer.from([
            opcode,
            mask | 127,
            0,
            0,
            0,
            0,
            0,
            length >> 16,
            (length >> 8) & 255,
            length & 255,
          ])
  // Bytes that look like a close frame, to detect a wrong frame boundary.
  return Buffer.concat([head, Buffer.alloc(masked ? 4 : 0, 9), Buffer.alloc(length, 0x88)])
}

const frame = fc.record({
  opcode: fc.constantFrom(0x81, 0x82, 0x01, 0x00, 0x80, 0x89, 0x8a),
  length: fc.oneof(
    fc.integer({ min: 0, max: 130 }),
    fc.constantFrom(125, 126, 127, 65_535, 65_536, 70_000),
  ),
  masked: fc.boolean(),
})

test("a frame may be inserted exactly between two frames, however the bytes are cut", () => {
  fc.assert(
    fc.property(
      fc.array(frame, { maxLength: 5 }),
      fc.array(fc.integer({ min: 1, max: 40_000 }), { minLength: 1, maxLength: 5 }),
      (frames, cuts) => {
        const all = frames.map(bytesOf)
        const ends = new Set<number>([0])
        let end = 0
        for (const bytes of all) ends.add((end += bytes.length))
        const stream = Buffer.concat(all)
        const finder = createFrameFinder()
        let at = 0
        for (let cut = 0; at < stream.length; cut += 1) {
          expect(finder.isBetween()).toBe(ends.has(at))
          const next = Math.min(stream.length, at + (cuts[cut % cuts.length] ?? 1))
          finder.feed(stream.subarray(at, next))
          at = next
        }
        expect(finder.isBetween()).toBe(true)
      },
    ),
  )
})

test("no frame may be inserted after a close frame", () => {
  const finder = createFrameFinder()
  finder.feed(bytesOf({ opcode: 0x81, length: 3, masked: false }))
  expect(finder.isBetween()).toBe(true)
  finder.feed(closeFrame(1000, "done"))
  expect(finder.isBetween()).toBe(false)
})

test("a close frame contains its code and its reason", () => {
  expect(closeFrame(1012, "hi").toString("hex")).toBe("880403f46869")
})
