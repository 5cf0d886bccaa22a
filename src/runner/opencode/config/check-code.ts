/** Imports each tool and plugin once in a separate process, to find files that do not load before OpenCode imports them. */
import { z } from "zod"
import { CommandNotStarted, runCommand } from "../../../lib/run-command.ts"

export interface CodeFile {
  readonly path: string
  /** A tool must export objects with a description and an execute function. */
  readonly isTool: boolean
}

export interface CheckOptions {
  /** Path of this program: the compiled binary can run scripts as Bun. */
  readonly runtime: string
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
}

const TIMEOUT_MS = 15_000
const OUTPUT_PREFIX = "sandpiper-check:"

/** Runs in the separate process, which kills itself at the end because imported code may keep timers running. */
const script = `
const { writeSync } = require("node:fs")
const isTool = (value) => typeof value?.description === "string" && typeof value?.execute === "function"
for (const file of JSON.parse(process.argv[1])) {
  let problem
  try {
    const loaded = Object.entries(await import(file.path))
    const bad = loaded.find(([, value]) => file.isTool && !isTool(value))
    if (file.isTool && loaded.length === 0) problem = "it exports nothing"
    if (bad) problem = "its export " + bad[0] + " is not a tool"
  } catch (error) {
    problem = String(error?.message ?? error)
  }
  writeSync(1, ${JSON.stringify(OUTPUT_PREFIX)} + JSON.stringify({ path: file.path, problem }) + "\\n")
}
process.kill(process.pid, "SIGKILL")`

const verdict = z.object({ path: z.string(), problem: z.string().optional() })

/** Returns path -> problem for the files that do not load. */
export const checkCode = async (
  files: readonly CodeFile[],
  options: CheckOptions,
): Promise<ReadonlyMap<string, string>> => {
  if (files.length === 0) return new Map()
  const { verdicts, exitReason } = await importAll(files, options)
  // The process could not be started (this program's file was replaced): nothing is known about the files.
  if (exitReason === undefined) return new Map()
  const unchecked = files.filter(({ path }) => !verdicts.has(path))
  // The first file without a verdict ended the process; the files after it are checked in another one.
  const [culprit, ...rest] = unchecked
  const later = culprit ? await checkCode(rest, options) : new Map<string, string>()
  const problems = [...verdicts].flatMap(([path, problem]) =>
    problem ? [[path, problem] as const] : [],
  )
  return new Map([
    ...problems,
    ...later,
    ...(culprit ? [[culprit.path, `importing it ended the process (${exitReason})`] as const] : []),
  ])
}

const importAll = async (files: readonly CodeFile[], { runtime, owner }: CheckOptions) => {
  const result = await runCommand(runtime, ["-e", script, JSON.stringify(files)], {
    env: { BUN_BE_BUN: "1", PATH: "/usr/bin:/bin" },
    // Bun reads bunfig.toml and .env from its working directory, and the workspace is untrusted.
    cwd: "/",
    timeoutMs: TIMEOUT_MS,
    user: owner,
  }).catch((error: unknown) => {
    if (error instanceof CommandNotStarted) return undefined
    throw error
  })
  const lines = (result?.stdout ?? "").split("\n").filter((line) => line.startsWith(OUTPUT_PREFIX))
  const verdicts = new Map(
    lines.map((line) => {
      const { path, problem } = verdict.parse(JSON.parse(line.slice(OUTPUT_PREFIX.length)))
      return [path, problem ?? ""] as const
    }),
  )
  const exitReason = result?.timedOut
    ? `it took longer than ${TIMEOUT_MS / 1000} s`
    : `code ${result?.exitCode}`
  return { verdicts, exitReason: result === undefined ? undefined : exitReason }
}
