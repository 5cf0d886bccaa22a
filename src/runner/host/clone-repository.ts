/** Clones the session's repositories. An existing clone is never changed in a way that could lose work. */
import { lstat, readdir, realpath, rename, rmdir, stat } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { type CommandResult, runCommand } from "../../lib/run-command.ts"
import { repositoryName, withoutCredentials } from "../../lib/git-url.ts"
import type { Log } from "../../lib/log.ts"
import { type HeldDirectory, holdBelow, UntrustedFile } from "../../lib/untrusted-files.ts"
import type { GitConfigInput } from "./git-config.ts"
import { writeGitConfigFile } from "./git-config-file.ts"
import type { Repository } from "./repository-rules.ts"

export interface GitOptions {
  /** The environment of git; contains no secrets. */
  readonly environment: Readonly<Record<string, string>>
  /** The user git runs as. The configuration in a clone may name programs, which must not run as root. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  readonly log: Log
}

/** git failed; the message ends with git's own error lines. */
class GitError extends Error {
  override readonly name = "GitError"
}

const CLONE_LIMIT_MS = 15 * 60_000
const FETCH_LIMIT_MS = 60_000
const PULL_LIMIT_MS = 20_000
const REMOVE_LIMIT_MS = 60_000

/** A home directory, and the user that owns it if it is not the runner's own. */
export interface Home {
  readonly path: string
  readonly user: GitOptions["user"]
}

/**
 * Rewritten at each start. The users' own .gitconfig only includes it, so that their settings stay unchanged. Each is
 * changed as its owner: root would follow a link that the owner has put there.
 */
export const writeGitConfig = async (
  directory: string,
  input: Omit<GitConfigInput, "ignoreFile">,
  homes: readonly Home[],
  { environment, log }: Pick<GitOptions, "environment" | "log">,
): Promise<void> => {
  const file = writeGitConfigFile(directory, input)
  for (const { path: home, user } of homes) {
    const args = ["-C", home, "config", "--file", join(home, ".gitconfig")]
    const options: GitOptions = { environment: { ...environment, HOME: home }, user, log }
    const known = await git([...args, "--get-all", "include.path"], options, {
      allowFailure: true,
    })
    if (known.split("\n").includes(file)) continue
    await git([...args, "--add", "include.path", file], options)
  }
}

export interface PreparedRepository {
  readonly directory: string
  readonly cloned: boolean
}

export interface PrepareOptions extends GitOptions {
  readonly workDir: string
  readonly pull: boolean
  readonly onProgress: (text: string) => void
}

export const prepareRepository = async (
  repository: Repository,
  options: PrepareOptions,
): Promise<PreparedRepository> => {
  const directory = join(options.workDir, repository.name ?? repositoryName(repository.url))
  if (!(await isFree(directory))) {
    await keepExisting(directory, repository, options)
    return { directory, cloned: false }
  }
  await clone(directory, repository, options)
  return { directory, cloned: true }
}

/** Clones next to the target and renames when complete, so that a partial clone is never used. */
const clone = async (directory: string, repository: Repository, options: PrepareOptions) => {
  const { branch: wanted, ref, depth } = repository
  const url = withoutCredentials(repository.url)
  const isNewBranch =
    wanted !== undefined &&
    repository.createsBranch === true &&
    !(await hasBranch(url, wanted, options))
  const branch = isNewBranch ? undefined : wanted
  const draft = `${directory}.cloning`
  await removeDraft(draft, options)
  const args = ["clone", "--progress", "--no-recurse-submodules"]
  if (branch !== undefined) args.push("--branch", branch)
  if (depth !== undefined) args.push("--depth", String(depth))
  try {
    await git([...args, "--", url, draft], options, {
      limitMs: CLONE_LIMIT_MS,
      onProgress: options.onProgress,
    })
    if (ref !== undefined) await checkOut(draft, ref, options)
    if (isNewBranch) await git(["-C", draft, "checkout", "--quiet", "-b", wanted], options)
    await moveInto(directory, draft)
  } catch (error) {
    await removeDraft(draft, options)
    throw error
  }
}

/** As the agent's user, who can put links into the draft at any moment. */
const removeDraft = async (draft: string, { environment, user }: GitOptions): Promise<void> => {
  const env = { PATH: environment["PATH"] }
  await runCommand("rm", ["-rf", "--", draft], { env, timeoutMs: REMOVE_LIMIT_MS, user })
}

/**
 * An empty directory stays the same one: programs that run in it would otherwise be in a deleted one. The part that has
 * everything comes first, so that a crash in between loses nothing. The directories are held: the agent can swap each of them
 * for a link at any moment, and this program may be root.
 */
const moveInto = async (directory: string, draft: string): Promise<void> => {
  const parent = await holdBelow(await realpath(dirname(directory)), [])
  const held = [parent]
  const hold = async (path: string): Promise<HeldDirectory> => {
    const found = await parent.existing(basename(path))
    held.push(found)
    return found
  }
  try {
    const isThere = await lstat(parent.entry(basename(directory))).catch(() => undefined)
    if (!isThere)
      return await rename(parent.entry(basename(draft)), parent.entry(basename(directory)))
    const [from, to] = [await hold(draft), await hold(directory)]
    // While the clone ran somebody may have begun to work there.
    if ((await readdir(to.self)).length > 0)
      throw new GitError(`${directory} is not empty any more`)
    const rest = (await readdir(from.self)).filter((name) => name !== ".git")
    for (const name of [".git", ...rest]) await rename(from.entry(name), to.entry(name))
    await rmdir(parent.entry(basename(draft)))
  } catch (error) {
    if (!(error instanceof UntrustedFile)) throw error
    throw new GitError(`${directory} was swapped for something else`, { cause: error })
  } finally {
    for (const one of held) await one.close()
  }
}

const hasBranch = async (url: string, branch: string, options: GitOptions): Promise<boolean> => {
  const args = ["ls-remote", "--heads", "--", url, `refs/heads/${branch}`]
  return (await git(args, options, { limitMs: FETCH_LIMIT_MS })).trim() !== ""
}

const checkOut = async (directory: string, ref: string, options: GitOptions) => {
  if (await hasRef(directory, ref, options)) {
    return git(["-C", directory, "checkout", "--quiet", ref, "--"], options)
  }
  await fetchRef(directory, ref, options)
  return git(["-C", directory, "checkout", "--quiet", "--detach", "FETCH_HEAD", "--"], options)
}

/** An existing clone may contain work: refs are added, and the working tree is only fast-forwarded. */
const keepExisting = async (directory: string, { ref }: Repository, options: PrepareOptions) => {
  if (!(await exists(join(directory, ".git")))) {
    throw new GitError(`${directory} exists and is not a git clone; it is left unchanged`)
  }
  if (ref !== undefined && !(await hasRef(directory, ref, options))) {
    await fetchRef(directory, ref, options)
  }
  if (options.pull) await pull(directory, options)
}

const pull = async (directory: string, options: GitOptions) => {
  const at = ["-C", directory]
  const dirty = await git([...at, "status", "--porcelain"], options)
  if (dirty !== "")
    return options.log.info("git.not-pulled", { directory, why: "uncommitted work" })
  const upstream = await git([...at, "rev-parse", "--abbrev-ref", "@{upstream}"], options, {
    allowFailure: true,
  })
  if (upstream === "") return options.log.info("git.not-pulled", { directory, why: "no upstream" })
  await git([...at, "pull", "--ff-only", "--quiet"], options, { limitMs: PULL_LIMIT_MS })
  options.log.info("git.pulled", { directory, upstream })
}

const hasRef = async (directory: string, ref: string, options: GitOptions): Promise<boolean> => {
  const args = ["-C", directory, "rev-parse", "--verify", "--quiet", `${ref}^{commit}`]
  return (await git(args, options, { allowFailure: true })) !== ""
}

const fetchRef = (directory: string, ref: string, options: GitOptions) =>
  git(["-C", directory, "fetch", "--quiet", "--tags", "origin", ref], options, {
    limitMs: FETCH_LIMIT_MS,
  })

interface GitRun {
  readonly allowFailure?: boolean
  readonly limitMs?: number
  readonly onProgress?: (text: string) => void
}

const git = async (
  args: readonly string[],
  { environment, user }: GitOptions,
  { allowFailure = false, limitMs = 30_000, onProgress }: GitRun = {},
): Promise<string> => {
  const result = await runCommand("git", args, {
    env: { ...environment, GIT_TERMINAL_PROMPT: "0", LC_ALL: "C" },
    timeoutMs: limitMs,
    user,
    ...(onProgress && { onStderr: (chunk) => progressIn(chunk, onProgress) }),
  }).catch((cause: unknown) => {
    throw new GitError("git could not be started: is it installed?", { cause })
  })
  if (result.exitCode === 0 && !result.timedOut) return result.stdout.trim()
  if (allowFailure) return ""
  throw new GitError(failureText(args, result, limitMs))
}

/** git rewrites one line with a percentage; only the last of a chunk is current. */
const progressIn = (chunk: string, onProgress: (text: string) => void) => {
  const last = chunk.split(/[\r\n]/).findLast((line) => line.includes("%"))
  if (last !== undefined) onProgress(last.trim())
}

const failureText = (
  args: readonly string[],
  { timedOut, stderr, exitCode }: CommandResult,
  limitMs: number,
): string => {
  const command = args.find((arg) => /^[a-z]/.test(arg)) ?? "git"
  if (timedOut) return `git ${command} took longer than ${limitMs / 1000} s`
  const lines = stderr.split(/[\r\n]/).filter((line) => /^(fatal|error|remote):/.test(line))
  return `git ${command}: ${lines.slice(-3).join("; ") || `exit code ${exitCode}`}`
}

/** True for a directory that does not exist or is empty; the platform may have created it. */
const isFree = async (directory: string): Promise<boolean> => {
  const found = await lstat(directory).catch(() => undefined)
  // A link leads to a directory that may not be the agent's.
  if (found && !found.isDirectory()) return false
  return (await readdir(directory).catch(() => [])).length === 0
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )
