/** Runs one test file in a process and a temporary folder of its own, and reports what it left behind. */
import { existsSync, readFileSync } from "node:fs"
import { chmod, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { clearLeftovers, findLeftovers, type Leftovers } from "./leftovers.ts"
import { readJunit, type TestResult } from "./junit.ts"
import { repositoryRoot } from "./suites.ts"

export interface FileOptions {
  readonly timeoutMs: number
  /** The tests of the file run in an order that the seed decides. */
  readonly seed?: number | undefined
  /** Added to the priority of the file's processes: 0 is the usual one, 19 the lowest. */
  readonly nice?: number | undefined
  /** How long processes of the file may take to end after it. */
  readonly endMs?: number
}

export interface FileResult {
  readonly file: string
  readonly ms: number
  /** The processors' time of the file's process and of the programs that it has waited for. */
  readonly cpuMs: number
  readonly tests: readonly TestResult[]
  /** What the file printed. */
  readonly output: string
}

/** A file that hangs is ended. Far above the longest file. */
const FILE_MS = 20 * 60_000
/** A process that was told to end may need a while on a busy machine. */
const END_MS = 15_000

/** Processes of the file that are still ending are waited for; files and mounts are not. */
const settledLeftovers = async (folder: string, endMs: number): Promise<Leftovers> => {
  const deadline = performance.now() + endMs
  for (;;) {
    const found = findLeftovers(folder)
    if (found.lines.length === 0 || performance.now() > deadline) return found
    if (found.processes.length === 0) return found
    // Sleep: looks again until the processes have ended.
    await Bun.sleep(50)
  }
}

const failure = (name: string, message: string): TestResult => ({
  name,
  ms: 0,
  state: "fail",
  assertions: 0,
  message,
})

export const runFile = async (
  file: string,
  { timeoutMs, seed, nice = 0, endMs = END_MS }: FileOptions,
): Promise<FileResult> => {
  // Short: the path of a Unix socket has at most 107 bytes.
  const folder = await mkdtemp(join(tmpdir(), "sp-"))
  // As /tmp: some tests start programs as another user.
  await chmod(folder, 0o1777)
  const report = `${folder}.xml`
  const from = performance.now()
  const child = Bun.spawn(
    [
      ...(nice > 0 ? ["nice", "-n", String(nice)] : []),
      process.execPath,
      "test",
      `--timeout=${timeoutMs}`,
      "--reporter=junit",
      `--reporter-outfile=${report}`,
      ...(seed === undefined ? [] : ["--randomize", `--seed=${seed}`]),
      `./${file}`,
    ],
    {
      cwd: repositoryRoot,
      // PATH has the mark, too: a test that starts a program with few variables passes it on.
      env: {
        ...process.env,
        TMPDIR: folder,
        PATH: [process.env["PATH"], join(folder, "mark")].join(delimiter),
      },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    },
  )
  let isLate = false
  const limit = setTimeout(() => {
    isLate = true
    child.kill("SIGKILL")
  }, FILE_MS)
  // A program that the file left behind keeps the pipes open: what it prints is not waited for.
  const collected = { out: "", err: "" }
  const collect = async (stream: ReadableStream<Uint8Array>, into: "out" | "err") => {
    const decoder = new TextDecoder()
    for await (const chunk of stream) collected[into] += decoder.decode(chunk, { stream: true })
  }
  const streams = Promise.all([collect(child.stdout, "out"), collect(child.stderr, "err")])
  await child.exited
  clearTimeout(limit)
  const left = await settledLeftovers(folder, endMs)
  await clearLeftovers(folder)
  await streams
  const ms = performance.now() - from
  const tests = existsSync(report) ? [...readJunit(readFileSync(report, "utf8"))] : []
  await rm(report, { force: true })
  const ended = isLate
    ? `did not end within ${FILE_MS / 60_000} minutes`
    : child.signalCode
      ? `was ended by ${child.signalCode}`
      : `exited with ${child.exitCode}`
  const hasFailed = tests.some(({ state }) => state === "fail")
  if (!hasFailed && (child.exitCode !== 0 || isLate))
    tests.push(failure("(the file)", `the process of the tests ${ended}`))
  else if (tests.length === 0) tests.push(failure("(the file)", "no test ran"))
  if (left.lines.length > 0)
    tests.push(
      failure("(leaves nothing behind)", `left behind:\n${left.lines.slice(0, 20).join("\n")}`),
    )
  const cpuMs = Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1000
  return { file, ms, cpuMs, tests, output: `${collected.out}${collected.err}` }
}
