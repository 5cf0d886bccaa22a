/** Frames of a WebSocket client, as a server reads them. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  createMessageReader,
  OPCODES,
  renderMessage,
} from "../../../../src/runner/gateway/http/ws-messages.ts"

const frame = (opcode: number, payload: Uint8Array, { final = true, masked = true } = {}) => {
  const plain = renderMessage(opcode, payload)
  const at = plain.length - payload.length
  plain[0] = (plain[0] ?? 0) & (final ? 0xff : 0x7f)
  if (!masked) return plain
  const mask = Buffer.from([1, 2, 3, 250])
  plain[1] = (plain[1] ?? 0) | 0x80
  const hidden = payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0))
  return Buffer.concat([plain.subarray(0, at), mask, hidden])
}

test("messages are read whole, in any number of frames and cut at any byte", () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 3 }), {
        maxLength: 4,
      }),
      fc.integer({ min: 1, max: 50 }),
      (messages, step) => {
        const bytes = Buffer.concat(
          messages.flatMap((pieces) => [
            ...pieces.map((piece, index) =>
              frame(index === 0 ? OPCODES.binary : 0, piece, {
                final: index === pieces.length - 1,
              }),
            ),
            frame(OPCODES.ping, Buffer.from("p")),
          ]),
        )
        const reader = createMessageReader(10_000)
        const read = []
        for (let at = 0; at < bytes.length; at += step) {
          const result = reader.feed(bytes.subarray(at, at + step))
          expect(result.broken).toBeUndefined()
          read.push(...result.messages)
        }
        const data = read.filter(({ kind }) => kind === "data").map(({ payload }) => payload)
        expect(data).toEqual(messages.map((pieces) => Buffer.concat(pieces)))
        expect(read.filter(({ kind }) => kind === "ping")).toHaveLength(messages.length)
      },
    ),
  )
})

test("long messages have their length in two or in eight bytes", () => {
  for (const length of [125, 126, 65_535, 65_536, 200_000]) {
    const [message] = createMessageReader(300_000).feed(
      frame(OPCODES.binary, new Uint8Array(length).fill(7)),
    ).messages
    expect(message?.payload.length).toBe(length)
  }
})

test("a frame that breaks the protocol ends the connection with its code", () => {
  const broken = (bytes: Uint8Array) => createMessageReader(1000).feed(bytes).broken
  expect(broken(frame(OPCODES.binary, Buffer.from("x"), { masked: false }))).toBe(1002)
  expect(broken(frame(0, Buffer.from("x")))).toBe(1002)
  expect(broken(frame(3, Buffer.from("x")))).toBe(1002)
  expect(broken(frame(OPCODES.ping, new Uint8Array(126)))).toBe(1002)
  expect(broken(Buffer.from([0xf2, 0x80, 0, 0, 0, 0]))).toBe(1002)
  expect(broken(frame(OPCODES.binary, new Uint8Array(1001)))).toBe(1009)
  const half = frame(OPCODES.binary, new Uint8Array(600), { final: false })
  expect(broken(Buffer.concat([half, frame(0, new Uint8Array(600))]))).toBe(1009)
})
