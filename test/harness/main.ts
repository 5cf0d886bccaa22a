/**
 * Runs test files: `bun test/harness/main.ts [--suite test|whole|stack|soak|attack] [--workers 3] [--again] [files]`.
 * `--again` is for CI: a failed file is run once more, alone, and what passes then is printed as flaky.
 */
import { parseArgs } from "node:util"
import {
  failedTests,
  fileLine,
  firstLine,
  flakyTests,
  MAX_FLAKY,
  quoted,
  slowestLines,
  totalLines,
} from "./report.ts"
import type { FileResult } from "./run-file.ts"
import { runFiles } from "./run-files.ts"
import { filesMatching, isNamedBy, prepareSuite, type Suite } from "./suites.ts"

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    suite: { type: "string", default: "test" },
    workers: { type: "string" },
    again: { type: "boolean", default: false },
  },
})
const print = (line: string): void => void process.stdout.write(`${line}\n`)

const run = async (suite: Suite, given: readonly string[]): Promise<number> => {
  const from = performance.now()
  const workers = Number(values.workers ?? suite.workers)
  const report = (result: FileResult): void => {
    print(fileLine(result))
    if (failedTests([result]).length > 0) print(quoted(result.output))
  }
  const among = (patterns: readonly string[]) => filesMatching(patterns).filter(isNamedBy(given))
  const results = [
    ...(await runFiles(among(suite.together), workers, suite, report)),
    ...(await runFiles(among(suite.alone ?? []), 1, suite, report)),
  ]
  if (results.length === 0) {
    print(`no test file matches ${given.join(" ") || "the suite"}`)
    return 1
  }
  const failed = results.filter((result) => failedTests([result]).length > 0)
  const again = values.again
    ? await runFiles(
        failed.map(({ file }) => file),
        1,
        suite,
        report,
      )
    : []
  const final = results.map((result) => again.find(({ file }) => file === result.file) ?? result)
  for (const line of slowestLines(final)) print(line)
  const flaky = flakyTests(results, again)
  for (const { file, name, message } of flaky)
    print(`flaky: ${file}: ${name}: ${firstLine(message)}`)
  for (const { file, name, message } of failedTests(final))
    print(`failed: ${file}: ${name}\n${quoted(message)}`)
  for (const line of totalLines(final, performance.now() - from)) print(line)
  return failedTests(final).length > 0 || flaky.length > MAX_FLAKY ? 1 : 0
}

process.exitCode = await run(await prepareSuite(values.suite), positionals)
