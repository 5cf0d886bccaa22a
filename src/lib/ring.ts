/** The last lines of something endless: bounded in number and in size, whatever is poured in. */

export interface Ring {
  readonly push: (line: string) => void
  /** The newest last. */
  readonly read: (most?: number) => readonly string[]
}

export interface RingLimits {
  readonly lines: number
  /** A longer line is cut, with a mark at its end. */
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
    read: (most = lines) => {
      const count = Math.min(most, next, lines)
      return Array.from({ length: count }, (_, index) => kept[(next - count + index) % lines] ?? "")
    },
  }
}
