/** Imports each file once in a process that is thrown away: what does not load is found before OpenCode meets it. */
import { z } from "zod"
import { CommandNotStarted, runCommand } from "../../../lib/run-command.ts"

export interface CodeFile {
  readonly path: string
  /** A tool must have a description and something to execute. */
  readonly isTool: boolean
}

export interface CheckOptions {
  /** This program; a compiled one is its own runtime. */
  readonly runtime: string
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
}

const LIMIT_MS = 15_000
const MARK = "sandpiper-check:"

/** Runs in the other process. It ends itself by a signal: what it imported may hold timers that never end. */
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
  writeSync(1, ${JSON.stringify(MARK)} + JSON.stringify({ path: file.path, problem }) + "\\n")
}
process.kill(process.pid, "SIGKILL")`

const verdict = z.object({ path: z.string(), problem: z.string().optional() })

/** Path -> what is wrong with it; files that load are not in it. */
export const checkCode = async (
  files: readonly CodeFile[],
  options: CheckOptions,
): Promise<ReadonlyMap<string, string>> => {
  if (files.length === 0) return new Map()
  const { verdicts, end } = await importAll(files, options)
  // No process at all (this program's file was replaced under it) says nothing about the files.
  if (end === undefined) return new Map()
  const unheard = files.filter(({ path }) => !verdicts.has(path))
  // The first one without a verdict took the process with it; those behind it get a process of their own.
  const [culprit, ...rest] = unheard
  const later = culprit ? await checkCode(rest, options) : new Map<string, string>()
  const problems = [...verdicts].flatMap(([path, problem]) =>
    problem ? [[path, problem] as const] : [],
  )
  return new Map([
    ...problems,
    ...later,
    ...(culprit ? [[culprit.path, `importing it ended the process (${end})`] as const] : []),
  ])
}

const importAll = async (files: readonly CodeFile[], { runtime, owner }: CheckOptions) => {
  const result = await runCommand(runtime, ["-e", script, JSON.stringify(files)], {
    env: { BUN_BE_BUN: "1", PATH: "/usr/bin:/bin" },
    // Bun reads bunfig.toml and .env in its working directory, and anyone may write to the workspace.
    cwd: "/",
    timeoutMs: LIMIT_MS,
    user: owner,
  }).catch((error: unknown) => {
    if (error instanceof CommandNotStarted) return undefined
    throw error
  })
  const lines = (result?.stdout ?? "").split("\n").filter((line) => line.startsWith(MARK))
  const verdicts = new Map(
    lines.map((line) => {
      const { path, problem } = verdict.parse(JSON.parse(line.slice(MARK.length)))
      return [path, problem ?? ""] as const
    }),
  )
  const end = result?.timedOut
    ? `it took longer than ${LIMIT_MS / 1000} s`
    : `code ${result?.exitCode}`
  return { verdicts, end: result === undefined ? undefined : end }
}
