/** A WebSocket server's messages: reads a client's frames, strictly, and renders its own. Pure. */

export const OPCODES = { text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

export interface SocketMessage {
  /** Text and binary are the same here; a message in several frames is one. */
  readonly kind: "data" | "close" | "ping" | "pong"
  readonly payload: Buffer
}

export interface MessageReader {
  /** The messages that are complete with these bytes; a close code if the client breaks the protocol. */
  readonly feed: (bytes: Uint8Array) => {
    readonly messages: readonly SocketMessage[]
    readonly broken?: number
  }
}

const FINAL = 0x80
const RESERVED = 0x70
const MASKED = 0x80
const MASK_BYTES = 4
const SHORT = 125
const LONGEST_CONTROL = 125
const PROTOCOL_ERROR = 1002
const TOO_LARGE = 1009

export const createMessageReader = (mostBytes: number): MessageReader => {
  let rest: Buffer = Buffer.alloc(0)
  let pieces: Buffer[] = []
  let pieceBytes = 0
  let isOpen = false
  let broken: number | undefined

  const take = (frame: Frame): SocketMessage | number | undefined => {
    const { opcode, final, payload } = frame
    if (opcode >= OPCODES.close) {
      const kind = CONTROL.get(opcode)
      if (kind === undefined || !final || payload.length > LONGEST_CONTROL) return PROTOCOL_ERROR
      return { kind, payload }
    }
    const continues = opcode === 0
    if (opcode > OPCODES.binary || continues !== isOpen) return PROTOCOL_ERROR
    pieces.push(payload)
    pieceBytes += payload.length
    isOpen = !final
    if (pieceBytes > mostBytes) return TOO_LARGE
    if (!final) return undefined
    const [first] = pieces
    const whole = pieces.length === 1 && first ? first : Buffer.concat(pieces)
    pieces = []
    pieceBytes = 0
    return { kind: "data", payload: whole }
  }

  return {
    feed: (bytes) => {
      const messages: SocketMessage[] = []
      let all = rest.length === 0 ? Buffer.from(bytes) : Buffer.concat([rest, bytes])
      while (broken === undefined) {
        const frame = readFrame(all, mostBytes)
        if (frame === undefined) break
        if (typeof frame === "number") {
          broken = frame
          break
        }
        all = all.subarray(frame.size)
        const message = take(frame)
        if (typeof message === "number") broken = message
        else if (message !== undefined) messages.push(message)
      }
      rest = all
      return { messages, ...(broken !== undefined && { broken }) }
    },
  }
}

const CONTROL: ReadonlyMap<number, "close" | "ping" | "pong"> = new Map([
  [OPCODES.close, "close"],
  [OPCODES.ping, "ping"],
  [OPCODES.pong, "pong"],
])

interface Frame {
  readonly opcode: number
  readonly final: boolean
  readonly payload: Buffer
  /** With its head. */
  readonly size: number
}

/** Undefined: the frame is not complete. A number: the close code of a broken one. */
const readFrame = (bytes: Buffer, mostBytes: number): Frame | number | undefined => {
  if (bytes.length < 2) return undefined
  const [first, second] = [bytes.readUInt8(0), bytes.readUInt8(1)]
  if ((first & RESERVED) !== 0 || (second & MASKED) === 0) return PROTOCOL_ERROR
  const short = second & 0x7f
  const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0
  const start = 2 + lengthBytes + MASK_BYTES
  if (bytes.length < start) return undefined
  const length =
    lengthBytes === 0
      ? short
      : lengthBytes === 2
        ? bytes.readUInt16BE(2)
        : Number(bytes.readBigUInt64BE(2))
  if (length > mostBytes) return TOO_LARGE
  if (bytes.length < start + length) return undefined
  const mask = bytes.subarray(start - MASK_BYTES, start)
  const payload = Buffer.from(bytes.subarray(start, start + length))
  for (let index = 0; index < length; index += 1)
    payload[index] = (payload[index] ?? 0) ^ (mask[index % MASK_BYTES] ?? 0)
  return { opcode: first & 0x0f, final: (first & FINAL) !== 0, payload, size: start + length }
}

/** One whole message. `prefix` comes before the payload, which is copied once. */
export const renderMessage = (opcode: number, payload: Uint8Array, prefix = ""): Buffer => {
  const length = payload.length + prefix.length
  const lengthBytes = length <= SHORT ? 0 : length <= 0xffff ? 2 : 8
  const frame = Buffer.allocUnsafe(2 + lengthBytes + length)
  frame.writeUInt8(FINAL | opcode, 0)
  frame.writeUInt8(lengthBytes === 0 ? length : lengthBytes === 2 ? 126 : 127, 1)
  if (lengthBytes === 2) frame.writeUInt16BE(length, 2)
  if (lengthBytes === 8) frame.writeBigUInt64BE(BigInt(length), 2)
  frame.write(prefix, 2 + lengthBytes, "latin1")
  frame.set(payload, 2 + lengthBytes + prefix.length)
  return frame
}
