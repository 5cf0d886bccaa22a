/** The last bytes of a stream, by their offset in it. The buffer grows to its size when it is first needed. */

export interface OutputRing {
  readonly add: (bytes: Uint8Array) => void
  /** The offset of the first byte that is kept. */
  readonly start: () => number
  readonly end: () => number
  /** A copy of the bytes between two offsets, which must be kept. */
  readonly read: (from: number, to: number) => Uint8Array
}

const FIRST_BYTES = 64 * 1024

export const createOutputRing = (size: number): OutputRing => {
  let buffer = new Uint8Array(Math.min(size, FIRST_BYTES))
  let end = 0
  /** Before the buffer has its size, it is not yet a ring: the stream begins at its first byte. */
  const grow = (needed: number) => {
    if (needed <= buffer.length || buffer.length === size) return
    const larger = new Uint8Array(Math.min(size, Math.max(needed, buffer.length * 2)))
    larger.set(buffer.subarray(0, end))
    buffer = larger
  }
  return {
    add: (bytes) => {
      grow(end + bytes.length)
      const kept = bytes.length > buffer.length ? bytes.subarray(-buffer.length) : bytes
      const at = (end + bytes.length - kept.length) % buffer.length
      const first = Math.min(kept.length, buffer.length - at)
      buffer.set(kept.subarray(0, first), at)
      buffer.set(kept.subarray(first), 0)
      end += bytes.length
    },
    start: () => Math.max(0, end - buffer.length),
    end: () => end,
    read: (from, to) => {
      const at = from % buffer.length
      const length = to - from
      const copy = new Uint8Array(length)
      const first = Math.min(length, buffer.length - at)
      copy.set(buffer.subarray(at, at + first))
      copy.set(buffer.subarray(0, length - first), first)
      return copy
    },
  }
}
