/**
 * Runs git as the agent's user. The repository is not trusted: nothing of its configuration may start a program, and no
 * command waits for a lock or for a password.
 */
import type { Clock } from "../../lib/clock.ts"
import { type GitSetting, gitSettings } from "../../lib/git-settings.ts"
import { runCommand } from "../../lib/run-command.ts"

export interface GitOptions {
  readonly workDir: string
  readonly environment: Readonly<Record<string, string>>
  /** The agent's user; undefined for the runner's own. */
  readonly user: { readonly uid: number; readonly gid: number; readonly home: string } | undefined
  readonly clock: Clock
}

export interface GitRun {
  /** Written to the standard input. */
  readonly input?: string
  /** Characters of the output that are kept. */
  readonly maxOutput?: number
  /** Exit codes that are a result and not a failure; 0 if not given. */
  readonly accept?: readonly number[]
}

/** The standard output. Throws when git fails. */
export type Git = (args: readonly string[], run?: GitRun) => Promise<string>

const TIMEOUT_MS = 20_000
const MAX_OUTPUT = 8 * 1024 * 1024
const harmless: readonly GitSetting[] = [
  ["core.fsmonitor", "false"],
  ["core.hooksPath", "/dev/null"],
  ["core.quotePath", "false"],
]

export const createGit =
  ({ workDir, environment, user, clock }: GitOptions): Git =>
  async (args, { input, maxOutput = MAX_OUTPUT, accept = [0] } = {}) => {
    const result = await runCommand("git", args, {
      cwd: workDir,
      env: {
        ...environment,
        ...gitSettings(harmless, environment),
        ...(user && { HOME: user.home }),
        GIT_OPTIONAL_LOCKS: "0",
        GIT_TERMINAL_PROMPT: "0",
        LC_ALL: "C",
      },
      timeoutMs: TIMEOUT_MS,
      user,
      maxOutput,
      clock,
      ...(input !== undefined && { input }),
    })
    if (accept.includes(result.exitCode)) return result.stdout
    const why = result.timedOut ? `took longer than ${TIMEOUT_MS} ms` : result.stderr.trim()
    throw new Error(`git ${args[0] ?? ""} failed: ${why || `exit code ${result.exitCode}`}`)
  }
