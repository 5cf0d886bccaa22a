/** Reports of test runs: the JUnit reader, the totals, flaky tests, the rounds of the race harness. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { fastFiles } from "./fast-files.ts"
import { readJunit, type TestResult } from "./junit.ts"
import { flakyTests, quoted, slowestLines, totalLines } from "./report.ts"
import { planRounds } from "./rounds.ts"
import { filesMatching, isNamedBy, prepareSuite, SUITES } from "./suites.ts"

const one = (name: string, state: TestResult["state"] = "pass", ms = 1): TestResult => ({
  name,
  ms,
  state,
  assertions: 2,
  message: state === "fail" ? `${name} is broken` : "",
})
const ranFile = (file: string, tests: readonly TestResult[]) => ({
  file,
  ms: 10,
  cpuMs: 5,
  tests,
  output: "",
})

test("a JUnit report is read with groups, escaped texts, failures, skipped tests and assertions", () => {
  const xml = `<testsuites><testsuite name="a">
    <testcase name="adds" classname="" time="0.5" assertions="3" />
    <testsuite name="g"><testcase name="a &quot;b&quot; &lt;c&gt;" classname="g &gt; h" time="0" assertions="0">
      <failure type="Error" message="boom &amp;&#10;second">Error: boom</failure>
    </testcase>
    <testcase name="later" classname="g" time="0" assertions="0"><skipped /></testcase></testsuite>
    </testsuite></testsuites>`
  expect(readJunit(xml)).toEqual([
    { name: "adds", ms: 500, state: "pass", assertions: 3, message: "" },
    { name: 'g > h > a "b" <c>', ms: 0, state: "fail", assertions: 0, message: "boom &\nsecond" },
    { name: "g > later", ms: 0, state: "skip", assertions: 0, message: "" },
  ])
})

test("the totals count tests and assertions in the form that CI reads", () => {
  const lines = totalLines(
    [ranFile("a", [one("x"), one("y", "fail")]), ranFile("b", [one("z", "skip")])],
    2500,
  )
  expect(lines).toEqual([
    " 1 pass",
    " 1 skip",
    " 1 fail",
    " 6 expect() calls",
    "Ran 3 tests across 2 files. [2.5 s]",
  ])
})

test("no line that a failed file prints is one of the totals that CI adds up", () => {
  const totals = /^ *[0-9]+ (pass|fail)$/m
  const output = "a.test.ts:\n 5 pass\n 1 fail\nRan 6 tests across 1 file.\n"
  expect(output).toMatch(totals)
  expect(quoted(output)).not.toMatch(totals)
  expect(quoted(output)).toBe(
    "  | a.test.ts:\n  |  5 pass\n  |  1 fail\n  | Ran 6 tests across 1 file.",
  )
})

test("the slowest thirty tests are listed, the slowest first", () => {
  const tests = Array.from({ length: 40 }, (_, index) => one(`t${index}`, "pass", index * 100))
  const lines = slowestLines([ranFile("a", tests)])
  expect(lines).toHaveLength(31)
  expect(lines[1]).toBe("    3.9 s  a: t39")
})

describe("flaky tests", () => {
  test("a test that failed and passes when its file runs again is flaky, and one that fails again is not", () => {
    const first = [ranFile("a", [one("x", "fail"), one("y", "fail")]), ranFile("b", [one("z")])]
    const again = [ranFile("a", [one("x"), one("y", "fail")])]
    expect(flakyTests(first, again).map(({ name }) => name)).toEqual(["x"])
  })
  test("a failed test is not flaky if its file did not run again", () => {
    expect(flakyTests([ranFile("a", [one("x", "fail")])], [])).toEqual([])
  })
})

describe("rounds of the race harness", () => {
  const files = ["a", "b", "c", "d", "e", "f"]
  test("every round of many files has each of them once, one to four workers, and equal seeds give equal rounds", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 30 }), (seed, times) => {
        const rounds = planRounds({ together: files, alone: [] }, { times, load: 2, seed })
        expect(rounds).toHaveLength(times)
        for (const round of rounds) {
          expect([...round.files].toSorted()).toEqual(files)
          expect([1, 2, 3, 4]).toContain(round.workers)
        }
        expect(planRounds({ together: files, alone: [] }, { times, load: 2, seed })).toEqual(rounds)
      }),
    )
  })
  test("twenty rounds have every number of workers, both priorities, and rounds with and without load", () => {
    const rounds = planRounds({ together: files, alone: [] }, { times: 20, load: 2, seed: 1 })
    expect(new Set(rounds.map(({ workers }) => workers))).toEqual(new Set([1, 2, 3, 4]))
    expect(new Set(rounds.map(({ nice }) => nice)).size).toBe(2)
    expect(new Set(rounds.map(({ isLoaded }) => isLoaded)).size).toBe(2)
    expect(
      planRounds({ together: files, alone: [] }, { times: 9, load: 0, seed: 1 }).some(
        ({ isLoaded }) => isLoaded,
      ),
    ).toBe(false)
  })
})

test("few files run in copies side by side, and files that run one at a time once", () => {
  const rounds = planRounds({ together: ["a", "b"], alone: ["c"] }, { times: 20, load: 2, seed: 1 })
  for (const { files } of rounds)
    expect(files.toSorted()).toEqual(["a", "a", "a", "b", "b", "b", "c"])
  expect(new Set(rounds.map(({ workers }) => workers))).toEqual(new Set([3, 4, 5, 6]))
})

test("words of the command line choose files by a part of their path", () => {
  expect(["test/lib/a.test.ts", "test/hub/b.test.ts"].filter(isNamedBy(["./test/lib"]))).toEqual([
    "test/lib/a.test.ts",
  ])
  expect(["x"].filter(isNamedBy([]))).toEqual(["x"])
})

test("every test file belongs to exactly one suite, apart from the flood, which is an attack, too", () => {
  const all = filesMatching(["test/**/*.{test,soak,stack,whole,attack}.ts"]).filter(
    (file) => !file.startsWith("test/image/") && !file.startsWith("test/soak/long/"),
  )
  const owned = Object.values(SUITES).flatMap((suite) => [
    ...filesMatching(suite.together),
    ...filesMatching("alone" in suite ? suite.alone : []),
  ])
  const timesOf = (file: string) => owned.filter((name) => name === file).length
  expect(all.filter((file) => timesOf(file) !== 1)).toEqual(["test/security/gateway-flood.test.ts"])
})

test("an unknown suite is refused with the names of the suites", () => {
  expect(prepareSuite("nope")).rejects.toThrow("use one of test, whole, stack, soak, attack")
})

test("the fast tests are most of all test files, and none of them needs OpenCode or a browser", () => {
  const fast = fastFiles()
  expect(fast.length).toBeGreaterThan(filesMatching(SUITES.test.together).length / 2)
  expect(fast.filter((file) => file.startsWith("test/e2e/"))).toEqual([])
})
