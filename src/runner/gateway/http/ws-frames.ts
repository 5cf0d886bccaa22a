/** Where one WebSocket frame ends and the next begins, and the frame that takes leave. Pure. */

export interface FrameFinder {
  /** Bytes of one direction, cut anywhere. */
  readonly feed: (bytes: Uint8Array) => void
  /** Another frame may be said here: none is half said, and none was the last. */
  readonly isBetween: () => boolean
}

const CLOSE = 0x8
const FINAL = 0x80
const MASKED = 0x80
const LONGEST_HEAD = 14

export const createFrameFinder = (): FrameFinder => {
  const head = Buffer.alloc(LONGEST_HEAD)
  let known = 0
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
        head[known] = bytes[at] ?? 0
        known += 1
        at += 1
        if (known < 2 || known < headLength(head)) continue
        payloadLeft = payloadLength(head)
        closed ||= (head.readUInt8(0) & 0x0f) === CLOSE
        known = 0
      }
    },
    isBetween: () => known === 0 && payloadLeft === 0 && !closed,
  }
}

/** As a server says it: not masked. A reason has 123 bytes at most. */
export const closeFrame = (code: number, reason: string): Buffer => {
  const words = Buffer.from(reason)
  const frame = Buffer.alloc(4 + words.length)
  frame.writeUInt8(FINAL | CLOSE, 0)
  frame.writeUInt8(2 + words.length, 1)
  frame.writeUInt16BE(code, 2)
  frame.set(words, 4)
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
