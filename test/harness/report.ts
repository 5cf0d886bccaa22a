/** What a run of test files prints: totals, the slowest tests, failures and flaky tests. Pure. */
import type { TestResult } from "./junit.ts"
import type { FileResult } from "./run-file.ts"

/** More tests than this that pass only when they are run again fail the run. */
export const MAX_FLAKY = 2
const SLOWEST = 30

interface Named extends TestResult {
  readonly file: string
}

const testsOf = (results: readonly FileResult[]): readonly Named[] =>
  results.flatMap(({ file, tests }) => tests.map((one) => ({ ...one, file })))

export const failedTests = (results: readonly FileResult[]): readonly Named[] =>
  testsOf(results).filter(({ state }) => state === "fail")

export const firstLine = (message: string): string =>
  message
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .slice(0, 2)
    .join(" ")
    .slice(0, 300)

/** What a file printed, so that none of its lines looks like one of this report: CI adds up the totals of all suites. */
export const quoted = (output: string): string => output.trimEnd().replace(/^/gm, "  | ")

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

export const fileLine = ({ file, ms, cpuMs, tests }: FileResult): string => {
  const failed = tests.filter(({ state }) => state === "fail").length
  return `${failed > 0 ? "(fail)" : "(pass)"} ${file}: ${tests.length} tests, ${failed > 0 ? `${failed} failed, ` : ""}${seconds(ms)} (${seconds(cpuMs)} CPU)`
}

export const slowestLines = (results: readonly FileResult[]): readonly string[] => [
  `The slowest ${SLOWEST} tests:`,
  ...testsOf(results)
    .toSorted((a, b) => b.ms - a.ms)
    .slice(0, SLOWEST)
    .map(({ ms, file, name }) => `${seconds(ms).padStart(9)}  ${file}: ${name}`),
]

/** A failed test of the first run that passes in the second. `again`: the files that failed, each run once more. */
export const flakyTests = (
  first: readonly FileResult[],
  again: readonly FileResult[],
): readonly Named[] => {
  const stillFailed = new Set(failedTests(again).map(({ file, name }) => `${file}\n${name}`))
  const repeated = new Set(again.map(({ file }) => file))
  return failedTests(first).filter(
    ({ file, name }) => repeated.has(file) && !stillFailed.has(`${file}\n${name}`),
  )
}

/** The last lines. Their form is that of `bun test`, which CI reads. */
export const totalLines = (results: readonly FileResult[], ms: number): readonly string[] => {
  const tests = testsOf(results)
  const count = (state: TestResult["state"]) => tests.filter((one) => one.state === state).length
  const assertions = tests.reduce((sum, one) => sum + one.assertions, 0)
  return [
    ` ${count("pass")} pass`,
    ...(count("skip") > 0 ? [` ${count("skip")} skip`] : []),
    ` ${count("fail")} fail`,
    ` ${assertions} expect() calls`,
    `Ran ${tests.length} tests across ${results.length} files. [${seconds(ms)}]`,
  ]
}
