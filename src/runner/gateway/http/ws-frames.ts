/** Finds the boundaries of WebSocket frames, and renders a close frame. Pure. */

export interface FrameFinder {
  /** Bytes of one direction, cut anywhere. */
  readonly feed: (bytes: Uint8Array) => void
  /** Another frame may be sent now: the last frame is complete and was not a close frame. */
  readonly isBetween: () => boolean
}

const CLOSE = 0x8
const FINAL = 0x80
const MASKED = 0x80
const LONGEST_HEAD = 14
/** With its head and mask. */
const LONGEST_CONTROL = 131

export const createFrameFinder = (): FrameFinder => {
  const head = Buffer.alloc(LONGEST_HEAD)
  let headBytes = 0
  let payloadLeft = 0
  let closed = false
  return {
    feed: (bytes) => {
      let at = 0
      while (at < bytes.length) {
        if (payloadLeft > 0) {
          const taken = Math.min(payloadLeft, bytes.length - at)
          payloadLeft -= taken
          at += taken
          continue
        }
        head[headBytes] = bytes[at] ?? 0
        headBytes += 1
        at += 1
        if (headBytes < 2 || headBytes < headLength(head)) continue
        payloadLeft = payloadLength(head)
        closed ||= (head.readUInt8(0) & 0x0f) === CLOSE
        headBytes = 0
      }
    },
    isBetween: () => headBytes === 0 && payloadLeft === 0 && !closed,
  }
}

/** Whether bytes of a client are a ping, a pong or a close frame. Bytes from inside a frame may be taken for one. */
export const isControlFrame = (bytes: Uint8Array): boolean =>
  bytes.length <= LONGEST_CONTROL && ((bytes[0] ?? 0) & CLOSE) !== 0

/** A server's close frame, which is not masked. `reason` may have 123 bytes. */
export const closeFrame = (code: number, reason: string): Buffer => {
  const text = Buffer.from(reason)
  const frame = Buffer.alloc(4 + text.length)
  frame.writeUInt8(FINAL | CLOSE, 0)
  frame.writeUInt8(2 + text.length, 1)
  frame.writeUInt16BE(code, 2)
  frame.set(text, 4)
  return frame
}

const shortLength = (head: Buffer): number => head.readUInt8(1) & 0x7f

const headLength = (head: Buffer): number => {
  const short = shortLength(head)
  const extended = short === 126 ? 2 : short === 127 ? 8 : 0
  const mask = (head.readUInt8(1) & MASKED) === 0 ? 0 : 4
  return 2 + extended + mask
}

const payloadLength = (head: Buffer): number => {
  const short = shortLength(head)
  if (short < 126) return short
  return short === 126 ? head.readUInt16BE(2) : Number(head.readBigUInt64BE(2))
}
