/** Keeps the last lines of an endless output; bounded in the number of lines and in their length. */

export interface Ring {
  readonly push: (line: string) => void
  /** At most `limit` lines, the newest last. */
  readonly read: (limit?: number) => readonly string[]
}

export interface RingLimits {
  readonly lines: number
  /** A longer line is cut and ends with an ellipsis. */
  readonly lineLength: number
}

export const createRing = ({ lines, lineLength }: RingLimits): Ring => {
  const kept: string[] = []
  let next = 0
  return {
    push: (line) => {
      kept[next % lines] = line.length > lineLength ? `${line.slice(0, lineLength)}…` : line
      next += 1
    },
    read: (limit = lines) => {
      const count = Math.min(limit, next, lines)
      return Array.from({ length: count }, (_, index) => kept[(next - count + index) % lines] ?? "")
    },
  }
}
