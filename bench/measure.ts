/** Shared by the benches: median and range of a few runs, and one output line per case. */
export interface Spread {
  readonly median: number
  readonly least: number
  readonly most: number
}

export const spread = (values: readonly number[]): Spread => {
  const sorted = values.toSorted((a, b) => a - b)
  return {
    median: sorted[Math.floor(sorted.length / 2)] ?? Number.NaN,
    least: sorted[0] ?? Number.NaN,
    most: sorted.at(-1) ?? Number.NaN,
  }
}

export const percentile = (values: readonly number[], share: number): number => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}

export const ms = ({ median, least, most }: Spread): string =>
  `${median.toFixed(0)} ms (${least.toFixed(0)}-${most.toFixed(0)})`

export const say = (what: string, value: string): void => {
  process.stdout.write(`${what.padEnd(64)} ${value}\n`)
}
