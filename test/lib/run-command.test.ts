/** Child processes that run to their end: exit codes, deadlines, aborts, output. Real processes. */
import { expect, test } from "bun:test"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CommandNotStarted, runCommand } from "../../src/lib/run-command.ts"
import { createManualClock } from "../kit/clock.ts"
import { untilState, untilTrue } from "../kit/until-true.ts"

const env = { PATH: process.env["PATH"] ?? "" }
const shell = (script: string, options: Partial<Parameters<typeof runCommand>[2]> = {}) =>
  runCommand("/bin/sh", ["-c", script], { env, timeoutMs: 20_000, ...options })

const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const untilEnded = (pid: number) => untilTrue(() => !isRunning(pid), `end of process ${pid}`)

/** A script that starts a grandchild which ignores SIGTERM, and the grandchild's pid once it runs. */
const withGrandchild = async (
  run: (script: string, pid: () => Promise<number>) => Promise<void>,
) => {
  const folder = await mkdtemp(join(tmpdir(), "run-command-"))
  const file = join(folder, "pid")
  const read = async () => {
    const look = () => readFile(file, "utf8").catch(() => "")
    return Number(await untilState(look, (text) => text.endsWith("\n"), "pid of the grandchild"))
  }
  try {
    await run(`sh -c 'trap "" TERM; echo $$ > ${file}; while :; do sleep 0.1; done' & wait`, read)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

test("a command's exit code and both output streams are returned", async () => {
  const result = await shell("echo out; echo err >&2; exit 3")
  expect(result).toEqual({
    exitCode: 3,
    stdout: "out\n",
    stderr: "err\n",
    timedOut: false,
    aborted: false,
  })
})

test("a command that is killed by a signal has exit code 137", async () => {
  expect((await shell("kill -9 $$")).exitCode).toBe(137)
})

test("a command gets its input and only the given environment", async () => {
  const result = await shell('cat; echo "$ONE/$HOME"', {
    input: "text\n",
    env: { ...env, ONE: "1" },
  })
  expect(result.stdout).toBe("text\n1/\n")
})

test("a program that does not exist is reported as not started", async () => {
  const started = runCommand("/nonexistent/program", [], { env, timeoutMs: 1000 })
  expect(started).rejects.toBeInstanceOf(CommandNotStarted)
})

test("a timeout ends the command and its grandchildren", () =>
  withGrandchild(async (script, pid) => {
    const clock = createManualClock()
    const running = shell(script, { timeoutMs: 500, clock })
    const grandchild = await pid()
    let isOver = false
    void running.finally(() => (isOver = true))
    await untilTrue(() => {
      clock.advance(500)
      return isOver
    }, "end of the command")
    expect(await running).toMatchObject({ timedOut: true, aborted: false })
    await untilEnded(grandchild)
  }))

test("an abort ends the command and its grandchildren", () =>
  withGrandchild(async (script, pid) => {
    const controller = new AbortController()
    const running = shell(script, { signal: controller.signal })
    const grandchild = await pid()
    controller.abort()
    expect(await running).toMatchObject({ aborted: true, timedOut: false })
    await untilEnded(grandchild)
  }))

test("a command whose signal is aborted before the start is ended", async () => {
  const result = await shell("sleep 60", { signal: AbortSignal.abort() })
  expect(result.aborted).toBe(true)
})

test("output beyond the cap is dropped and the command runs to its end", async () => {
  const result = await shell("head -c 2000000 /dev/zero | tr '\\0' x; echo end >&2", {
    maxOutput: 1000,
  })
  expect(result.stdout).toBe(`${"x".repeat(1000)}\n[more output was left out]`)
  expect(result.stderr).toBe("end\n")
})

test("a daemon that keeps the pipes open does not delay the result", async () => {
  // A result that waits for the daemon is that of a timeout, which ends the daemon.
  const result = await shell("sleep 600 & echo done")
  expect(result).toMatchObject({ stdout: "done\n", exitCode: 0, timedOut: false })
})

test("a transform sees all output of its stream and adds the text that it held back", async () => {
  const result = await shell("echo one; echo two", {
    transform: () => {
      let seen = ""
      return {
        push: (text) => {
          seen += text
          return ""
        },
        end: () => seen.toUpperCase(),
      }
    },
  })
  expect(result.stdout).toBe("ONE\nTWO\n")
})
