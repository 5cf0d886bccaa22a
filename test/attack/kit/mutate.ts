/** Random changes of texts, from a seed: the same seed gives the same changes. */

export interface Random {
  /** A whole number from 0 up to, not including, `below`. */
  readonly below: (below: number) => number
  readonly pick: <Value>(values: readonly Value[]) => Value
}

export const seedOf = (variable: string | undefined): number =>
  variable === undefined ? Math.floor(Math.random() * 0xffffffff) : Number(variable)

/** mulberry32: 32 bits of state, good enough to choose mutations. */
export const createRandom = (seed: number): Random => {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
  const below = (limit: number) => next() % limit
  return {
    below,
    pick: (values) => {
      const value = values[below(values.length)]
      if (value === undefined) throw new Error("pick needs at least one value")
      return value
    },
  }
}

/** One to four changes: a byte, a piece of the dictionary, a doubled, removed or swapped stretch. */
export const mutate = (random: Random, text: string, dictionary: readonly string[]): string => {
  let result = text
  for (let count = 1 + random.below(4); count > 0; count -= 1)
    result = change(random, result, dictionary)
  return result
}

const change = (random: Random, text: string, dictionary: readonly string[]): string => {
  const at = random.below(text.length + 1)
  const length = 1 + random.below(12)
  const [head, tail] = [text.slice(0, at), text.slice(at)]
  switch (random.below(7)) {
    case 0:
      return head + String.fromCharCode(random.below(256)) + tail.slice(1)
    case 1:
      return head + String.fromCharCode(random.below(256)) + tail
    case 2:
      return head + tail.slice(length)
    case 3:
      return head + tail.slice(0, length) + tail
    case 4:
      return head + random.pick(dictionary) + tail
    case 5:
      return head + random.pick(dictionary) + tail.slice(length)
    default:
      return tail.slice(0, length) + head + tail.slice(length)
  }
}
