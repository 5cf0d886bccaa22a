/**
 * Git worktrees of the directory that `up` works in. The repository is not trusted: git runs as the agent's user, without
 * hooks and without the hub's environment.
 */
import { join } from "node:path"
import { gitSettings } from "../../../lib/git-settings.ts"
import { runCommand } from "../../../lib/run-command.ts"

export interface WorktreeOptions {
  /** A directory of the repository, at its top or below. */
  readonly workDir: string
  readonly path: string | undefined
  /** The agent's user; undefined for the hub's own. */
  readonly user: { readonly uid: number; readonly gid: number; readonly home: string } | undefined
  readonly home: string | undefined
}

export interface Worktrees {
  /** Why the directory can have no worktree; undefined when it can. Changes nothing. */
  readonly problem: () => Promise<string | undefined>
  /** Checks out a new branch at the current commit into an empty directory; a text is the problem. */
  readonly add: (folder: string, branch: string) => Promise<string | undefined>
  /** The same directory in a worktree. */
  readonly workDirIn: (folder: string) => Promise<string>
  /** Removes a worktree. One with changes that are not committed stays, unless `force` is set, which also deletes the branch. */
  readonly remove: (folder: string, force?: { readonly branch: string }) => Promise<boolean>
}

const GIT_MS = 60_000
const SAFE = gitSettings([
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
])

export const createWorktrees = ({ workDir, path, user, home }: WorktreeOptions): Worktrees => {
  const git = async (...args: readonly string[]) => {
    const { exitCode, stdout, stderr } = await runCommand("git", args, {
      cwd: workDir,
      env: { ...SAFE, PATH: path, HOME: user?.home ?? home, LC_ALL: "C", GIT_TERMINAL_PROMPT: "0" },
      timeoutMs: GIT_MS,
      user,
    })
    return { ok: exitCode === 0, text: stdout.trim(), problem: stderr.trim().slice(-400) }
  }
  return {
    problem: async () => {
      const inside = await git("rev-parse", "--is-inside-work-tree").catch(() => undefined)
      if (!inside) return `git cannot be started in ${workDir}: install git`
      if (inside.text !== "true")
        return `${workDir} is not a git repository: choose the same directory, or run \`git init\` and commit`
      const head = await git("rev-parse", "--quiet", "--verify", "HEAD")
      return head.ok ? undefined : `the repository in ${workDir} has no commit yet: commit first`
    },
    add: async (folder, branch) => {
      const added = await git("worktree", "add", "--quiet", "-b", branch, folder, "HEAD")
      return added.ok ? undefined : `git worktree add failed: ${added.problem}`
    },
    workDirIn: async (folder) => join(folder, (await git("rev-parse", "--show-prefix")).text),
    remove: async (folder, force) => {
      const removed = await git("worktree", "remove", ...(force ? ["--force"] : []), folder)
      if (force) await git("branch", "--quiet", "-D", force.branch)
      return removed.ok
    },
  }
}
