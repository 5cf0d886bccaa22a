/** The stream of envd's process API is decoded whole or not at all. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { decodeFrames } from "../../../src/fleet/providers/envd.ts"

const frame = (flag: number, json: unknown): Uint8Array => {
  const text = Buffer.from(JSON.stringify(json))
  const head = Buffer.alloc(5)
  head.writeUInt8(flag, 0)
  head.writeUInt32BE(text.length, 1)
  return Buffer.concat([head, text])
}
const messages = fc.array(
  fc.record({ isEnd: fc.boolean(), json: fc.dictionary(fc.string(), fc.string()) }),
)

test("every stream of messages is read back, and none of its cuts within a message is read as a stream", () => {
  fc.assert(
    fc.property(messages, fc.nat(), (sent, cut) => {
      const parts = sent.map(({ isEnd, json }) => frame(isEnd ? 2 : 0, json))
      const bytes = Buffer.concat(parts)
      expect(decodeFrames(bytes)).toEqual(sent)
      const at = bytes.length === 0 ? 0 : cut % bytes.length
      const read = decodeFrames(bytes.subarray(0, at))
      const ends = parts.reduce<readonly number[]>(
        (known, part) => [...known, (known.at(-1) ?? 0) + part.length],
        [0],
      )
      if (ends.includes(at)) expect(read).toEqual(sent.slice(0, ends.indexOf(at)))
      else expect(read).toBeUndefined()
    }),
  )
})

test("bytes that are not messages are not understood, and throw nothing", () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      decodeFrames(bytes)
    }),
  )
})
