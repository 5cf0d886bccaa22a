/**
 * Finds races: `npm run test:repeat -- [--times 20] [--load 2] [--suite test] [--seed N] [--from N] [--workers N] [files]` runs test
 * files again and again, in a shuffled order, with 1 to 4 workers, with a lower priority or not, beside busy loops of the processor
 * and the disk or not; few files run in copies side by side. It prints for each failed test how often it failed and its first
 * message. `--from` goes on with a later round of the same seed: all rounds of a whole suite take hours.
 */
import { loadavg } from "node:os"
import { parseArgs } from "node:util"
import { startLoad } from "./load.ts"
import { failedTests, firstLine } from "./report.ts"
import { planRounds, type Round } from "./rounds.ts"
import { runFiles } from "./run-files.ts"
import { filesMatching, isNamedBy, prepareSuite, type Suite } from "./suites.ts"

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    times: { type: "string", default: "20" },
    load: { type: "string", default: "2" },
    suite: { type: "string", default: "test" },
    seed: { type: "string" },
    from: { type: "string", default: "1" },
    workers: { type: "string" },
  },
})
const print = (line: string): void => void process.stdout.write(`${line}\n`)

interface Failure {
  readonly name: string
  readonly rounds: number[]
  readonly message: string
}

const repeat = async (suite: Suite): Promise<number> => {
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
  const times = Number(values.times)
  const first = Number(values.from)
  const load = Number(values.load)
  if (first > 1 && values.seed === undefined)
    throw new Error("--from needs --seed: it goes on with the rounds of an earlier run")
  if (!(first >= 1 && first <= times))
    throw new Error(`--from ${values.from} is not one of the rounds 1 to ${times}`)
  const named = (patterns: readonly string[]) =>
    filesMatching(patterns).filter(isNamedBy(positionals))
  const together = named(suite.together)
  const alone = named(suite.alone ?? [])
  const failures = new Map<string, Failure>()
  const planned = planRounds({ together, alone }, { times, load, seed }).slice(first - 1)
  print(
    `seed ${seed}: ${together.length + alone.length} files, rounds ${first} to ${times}, load ${load}`,
  )

  const runRound = async (round: Round): Promise<void> => {
    const from = performance.now()
    const workers = Number(values.workers ?? round.workers)
    const busy = startLoad(round.isLoaded ? load : 0)
    const options = { timeoutMs: suite.timeoutMs, nice: round.nice, seed: round.testSeed }
    const isTogether = (file: string) => together.includes(file)
    const report = (result: Parameters<typeof failedTests>[0][number]) => {
      for (const { file, name, message } of failedTests([result])) {
        const key = `${file}: ${name}`
        const known = failures.get(key)
        if (known?.rounds.includes(round.number)) continue
        if (known) known.rounds.push(round.number)
        else {
          failures.set(key, { name: key, rounds: [round.number], message })
          print(
            `  failed in round ${round.number}: ${key}\n${message}\n${result.output.slice(-6000)}`,
          )
        }
      }
    }
    const results = [
      ...(await runFiles(round.files.filter(isTogether), workers, options, report)),
      ...(await runFiles(
        round.files.filter((file) => !isTogether(file)),
        1,
        options,
        report,
      )),
    ]
    const [average = 0] = loadavg()
    await busy.stop()
    const tests = results.reduce((sum, result) => sum + result.tests.length, 0)
    print(
      `round ${round.number}: ${failedTests(results).length} of ${tests} tests failed; workers ${workers}, ` +
        `${round.isLoaded ? `load ${load}` : "no load"}, nice ${round.nice}, ` +
        `${round.testSeed === undefined ? "tests in order" : `tests in order of seed ${round.testSeed}`}, ` +
        `load average ${average.toFixed(1)}, ${((performance.now() - from) / 1000).toFixed(0)} s`,
    )
  }

  let clean = 0
  for (const round of planned) {
    const before = [...failures.values()].reduce((sum, { rounds }) => sum + rounds.length, 0)
    await runRound(round)
    const after = [...failures.values()].reduce((sum, { rounds }) => sum + rounds.length, 0)
    if (after === before) clean += 1
  }
  for (const { name, rounds, message } of failures.values())
    print(`${rounds.length} of ${planned.length}: ${name}: ${firstLine(message)}`)
  print(`${clean} of ${planned.length} rounds passed (seed ${seed})`)
  return clean === planned.length ? 0 : 1
}

process.exitCode = await repeat(await prepareSuite(values.suite))
