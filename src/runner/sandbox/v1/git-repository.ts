/**
 * Runs git in a repository of the workspace that is not trusted: no setting of the repository may start a program, and the
 * work tree and the git directory stay below the workspace.
 */
import { opendir } from "node:fs/promises"
import { type GitSetting, gitSettings } from "../../../lib/git-settings.ts"
import { runCommand } from "../../../lib/run-command.ts"
import { isBelow, type HeldDirectory } from "../../../lib/untrusted-files.ts"
import type { Files } from "./files.ts"
import { invalid, Problem } from "./problem.ts"

export interface FoundRepository {
  /** Base64url of the path relative to the workspace. */
  readonly id: string
  readonly path: string
}

export type RunGit = (args: readonly string[], maxOutput?: number) => Promise<string>

const DEEPEST = 3
const MOST_REPOSITORIES = 100
const MOST_DIRECTORIES = 2000
const LEFT_OUT = new Set([".git", "node_modules"])
const TIMEOUT_MS = 20_000
const MAX_OUTPUT = 8 * 1024 * 1024

/** Settings of a repository that would start a program, and those that lead it to other places. */
const harmless: readonly GitSetting[] = [
  ["core.fsmonitor", "false"],
  ["core.hooksPath", "/dev/null"],
  ["core.quotePath", "false"],
  ["core.pager", "cat"],
  ["core.attributesFile", "/dev/null"],
  ["diff.external", ""],
  ["log.showSignature", "false"],
  ["submodule.recurse", "false"],
  ["protocol.allow", "never"],
]

/** Below the workspace, without following links, and not inside another repository's `.git` or `node_modules`. */
export const findRepositories = async (files: Files): Promise<readonly FoundRepository[]> => {
  const found: FoundRepository[] = []
  let seen = 0
  const search = async (relative: string, depth: number): Promise<void> => {
    seen += 1
    if (seen > MOST_DIRECTORIES || found.length >= MOST_REPOSITORIES) return
    const directory = await files.hold(relative).catch(() => undefined)
    if (directory === undefined) return
    const below: string[] = []
    try {
      for await (const entry of await opendir(directory.self)) {
        if (entry.name === ".git" && (entry.isDirectory() || entry.isFile())) {
          found.push({
            id: Buffer.from(relative).toString("base64url"),
            path: files.absolute(relative),
          })
        }
        if (entry.isDirectory() && !LEFT_OUT.has(entry.name)) below.push(entry.name)
      }
    } finally {
      await directory.close()
    }
    if (depth >= DEEPEST) return
    for (const name of below.toSorted()) await search(`${relative}/${name}`, depth + 1)
  }
  await search(".", 0)
  return found
}

export const pathOfId = (id: string | undefined): string => {
  if (id === undefined || !/^[A-Za-z0-9_-]{1,6000}$/.test(id)) {
    throw invalid("the parameter repo must be the id of a repository, from /api/git/repos")
  }
  return Buffer.from(id, "base64url").toString("utf8")
}

/** Runs `use` with a git for this repository. */
export const inRepository = async <Result>(
  files: Files,
  path: string,
  environment: Readonly<Record<string, string>>,
  use: (git: RunGit) => Promise<Result>,
): Promise<Result> => {
  const directory = await files.hold(path)
  try {
    const plain = createRunGit(directory, environment, [])
    const gitDirectory = (await plain(["rev-parse", "--absolute-git-dir"])).trim()
    if (!isBelow(files.absolute("."), gitDirectory)) {
      throw invalid(`${files.absolute(path)} keeps its repository outside the workspace`)
    }
    return await use(createRunGit(directory, environment, await withoutFilters(plain)))
  } finally {
    await directory.close()
  }
}

const createRunGit =
  (
    { self }: HeldDirectory,
    environment: Readonly<Record<string, string>>,
    settings: readonly GitSetting[],
  ): RunGit =>
  async (args, maxOutput = MAX_OUTPUT) => {
    const result = await runCommand("git", ["--no-pager", ...args], {
      // The child resolves its directory itself, and `/proc/self` would be the child.
      cwd: self.replace("/proc/self/", `/proc/${process.pid}/`),
      env: {
        PATH: environment["PATH"],
        HOME: "/",
        LC_ALL: "C",
        ...gitSettings([...harmless, ...settings]),
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_CONFIG_GLOBAL: "/dev/null",
        GIT_OPTIONAL_LOCKS: "0",
        GIT_TERMINAL_PROMPT: "0",
        // Explicit, so that core.worktree cannot name a directory outside the workspace.
        GIT_DIR: ".git",
        GIT_WORK_TREE: ".",
      },
      timeoutMs: TIMEOUT_MS,
      maxOutput,
    })
    if (result.exitCode === 0) return result.stdout
    const why = result.timedOut ? `it took longer than ${TIMEOUT_MS} ms` : result.stderr.trim()
    throw new Problem(409, "conflict", `git ${args[0] ?? ""} failed: ${why.slice(0, 500)}`)
  }

/** Filters run programs for the files that a repository's attributes name; each is replaced by an empty one. */
const withoutFilters = async (git: RunGit): Promise<readonly GitSetting[]> => {
  const listed = await git(["config", "--null", "--name-only", "--list"])
  const names = new Set(
    listed.split("\0").flatMap((key) => /^filter\.(.*)\.[^.]+$/s.exec(key)?.[1] ?? []),
  )
  return [...names].flatMap((name): readonly GitSetting[] => [
    [`filter.${name}.clean`, ""],
    [`filter.${name}.smudge`, ""],
    [`filter.${name}.process`, ""],
    [`filter.${name}.required`, "false"],
  ])
}
