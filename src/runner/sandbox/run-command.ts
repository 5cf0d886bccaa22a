/** Runs a command in the workspace as the agent's user, with the output masked and failures as SecretsErrors. */
import { stat } from "node:fs/promises"
import type { Clock } from "../../lib/clock.ts"
import { CommandNotStarted, runCommand } from "../../lib/run-command.ts"
import type { Mask } from "./secret-mask.ts"
import { SecretsError } from "./secrets-error.ts"
import { insideWorkspace } from "./workspace-files.ts"

export interface CommandResult {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

interface Command {
  readonly program: string
  readonly args: readonly string[]
  readonly cwd: string | undefined
  readonly timeoutMs: number
  /** On top of the sandbox's environment. Secret values belong here and not in `args`, which `ps` shows. */
  readonly env: Readonly<Record<string, string>>
  readonly input?: string
  /** Ends the command early. */
  readonly signal?: AbortSignal
}

export type RunCommand = (command: Command, mask: () => Mask) => Promise<CommandResult>

export interface RunCommandOptions {
  readonly workDir: string
  /** The environment of every command of the agent; contains none of the runner's own secrets. */
  readonly environment: Readonly<Record<string, string>>
  /** The user that commands run as; undefined for the runner's own. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
  readonly clock: Clock
}

const MAX_OUTPUT = 256 * 1024

export const createRunCommand =
  ({ workDir, environment, owner, clock }: RunCommandOptions): RunCommand =>
  async (command, mask) => {
    const { program, args, timeoutMs, input = "", signal } = command
    const cwd = await insideWorkspace(workDir, command.cwd ?? ".")
    if (!(await stat(cwd).catch(() => undefined))?.isDirectory()) {
      throw new SecretsError("bad-input", `cwd: there is no folder ${command.cwd ?? "."}`)
    }
    const result = await runCommand(program, args, {
      cwd,
      env: { ...environment, ...command.env },
      timeoutMs,
      input,
      user: owner,
      signal,
      maxOutput: MAX_OUTPUT,
      transform: mask,
      clock,
    }).catch((cause: unknown) => {
      if (!(cause instanceof CommandNotStarted)) throw cause
      throw new SecretsError("unavailable", `${program} cannot be run in this sandbox`, { cause })
    })
    if (result.timedOut) {
      throw new SecretsError(
        "timeout",
        `the command took longer than ${timeoutMs} ms and was ended`,
      )
    }
    return { exitCode: result.exitCode, stdout: result.stdout, stderr: result.stderr }
  }
