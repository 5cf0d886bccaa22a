/** The rounds of `npm run test:repeat`: each has an order of the files, workers, a priority and a load, all decided by one seed. Pure. */

export interface Round {
  readonly number: number
  readonly files: readonly string[]
  /** 1 to 4. */
  readonly workers: number
  /** Added to the priority of the tests: the busy loops come first. */
  readonly nice: number
  readonly isLoaded: boolean
  /** Decides the order of the tests in each file; undefined: as they are written. */
  readonly testSeed: number | undefined
}

/** Mulberry32: a small generator with a seed. */
const randomFrom = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const shuffled = <Item>(items: readonly Item[], random: () => number): readonly Item[] => {
  const result = [...items]
  for (let index = result.length - 1; index > 0; index -= 1) {
    const other = Math.floor(random() * (index + 1))
    const kept = result[index] as Item
    result[index] = result[other] as Item
    result[other] = kept
  }
  return result
}

export const planRounds = (
  files: readonly string[],
  { times, load, seed }: { readonly times: number; readonly load: number; readonly seed: number },
): readonly Round[] => {
  const random = randomFrom(seed)
  return Array.from({ length: times }, (_, index) => {
    const workers = 1 + Math.floor(random() * 4)
    const isNice = random() < 0.5
    return {
      number: index + 1,
      files: shuffled(files, random),
      workers,
      nice: isNice ? 10 : 0,
      // Every third round runs without load: a quick machine has races of its own.
      isLoaded: load > 0 && index % 3 !== 2,
      testSeed: index % 2 === 1 ? Math.floor(random() * 2 ** 31) : undefined,
    }
  })
}
