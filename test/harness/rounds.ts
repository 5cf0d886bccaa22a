/**
 * The rounds of `npm run test:repeat`: each has an order of the files, workers, a priority and a load, all decided by one seed.
 * Few files run in copies side by side: a single one, alone on the machine, meets few races. Pure.
 */

export interface Round {
  readonly number: number
  readonly files: readonly string[]
  /** 1 to 4; with few files 3 to 6. */
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

/** With fewer files than this, each runs as often as it takes to reach it. */
const MANY_FILES = 6

const copiesOf = (files: readonly string[]): readonly string[] =>
  files.length >= MANY_FILES
    ? files
    : files.flatMap((file) =>
        Array.from({ length: Math.ceil(MANY_FILES / files.length) }, () => file),
      )

/** `alone`: files that run one at a time, so copies of them would only take longer. */
export const planRounds = (
  { together, alone }: { readonly together: readonly string[]; readonly alone: readonly string[] },
  { times, load, seed }: { readonly times: number; readonly load: number; readonly seed: number },
): readonly Round[] => {
  const random = randomFrom(seed)
  const files = [...copiesOf(together), ...alone]
  const fewestWorkers = together.length < MANY_FILES ? 3 : 1
  return Array.from({ length: times }, (_, index) => {
    const workers = fewestWorkers + Math.floor(random() * 4)
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
