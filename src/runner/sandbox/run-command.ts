/** Runs a command in a process group of its own, its output hidden as it comes, ended whole when its time is up. */
import { type ChildProcess, spawn } from "node:child_process"
import { stat } from "node:fs/promises"
import { type Clock, sleep } from "../../lib/clock.ts"
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
  /** On top of the sandbox's environment; the only place where values are, since arguments show in `ps`. */
  readonly env: Readonly<Record<string, string>>
  readonly input?: string
  /** Ends it before its time. */
  readonly signal?: AbortSignal
}

export type RunCommand = (command: Command, mask: () => Mask) => Promise<CommandResult>

export interface CommandOptions {
  readonly workDir: string
  /** What every command of the agent sees; none of the runner's own secrets. */
  readonly environment: Readonly<Record<string, string>>
  /** Who it runs as, when that is not the runner's own user. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
  readonly clock: Clock
}

/** What is kept of each stream; the rest is read and dropped, so that the command can go on writing. */
const MOST_OUTPUT = 256 * 1024
/** Daemons that a command leaves behind keep its pipes open; its own words are out by then. */
const LINGER_MS = 250
const TERM_MS = 1000

export const createRunCommand =
  ({ workDir, environment, owner, clock }: CommandOptions): RunCommand =>
  async (command, mask) => {
    const cwd = await insideWorkspace(workDir, command.cwd ?? ".")
    if (!(await stat(cwd).catch(() => undefined))?.isDirectory()) {
      throw new SecretsError("bad-input", `cwd: there is no folder ${command.cwd ?? "."}`)
    }
    const child = spawn(command.program, command.args, {
      cwd,
      env: { ...environment, ...command.env },
      detached: true,
      ...(owner && { uid: owner.uid, gid: owner.gid }),
      stdio: ["pipe", "pipe", "pipe"],
    })
    const stdout = collect(child.stdout, mask())
    const stderr = collect(child.stderr, mask())
    child.stdin?.on("error", () => {})
    child.stdin?.end(command.input ?? "")
    const exited = exitOf(child, command.program)
    const closed = Promise.withResolvers<void>()
    child.once("close", () => closed.resolve())
    let timedOut = false
    const end = () => void endGroup(child, clock)
    const cancel = clock.after(command.timeoutMs, () => {
      timedOut = true
      end()
    })
    command.signal?.addEventListener("abort", end)
    try {
      const exitCode = await exited
      await Promise.race([closed.promise, sleep(clock, LINGER_MS)])
      if (timedOut) {
        const words = `the command took longer than ${command.timeoutMs} ms and was ended`
        throw new SecretsError("timeout", words)
      }
      return { exitCode, stdout: stdout(), stderr: stderr() }
    } finally {
      cancel()
      command.signal?.removeEventListener("abort", end)
      child.stdout?.destroy()
      child.stderr?.destroy()
      signalGroup(child, "SIGKILL")
    }
  }

const exitOf = (child: ChildProcess, program: string): Promise<number> =>
  new Promise((resolve, reject) => {
    child.once("error", (cause) => {
      reject(new SecretsError("unavailable", `${program} cannot be run in this sandbox`, { cause }))
    })
    // A signal has no code; shells say 128 and its number, and 137 is what being killed looks like.
    child.once("exit", (code) => resolve(code ?? 137))
  })

const collect = (stream: NodeJS.ReadableStream | null, mask: Mask): (() => string) => {
  const decoder = new TextDecoder()
  let kept = ""
  let isFull = false
  stream?.on("data", (chunk: Buffer) => {
    if (isFull) return
    // Hidden first, cut after: a value that is cut in two is not recognised any more.
    kept += mask.push(decoder.decode(chunk, { stream: true }))
    isFull = kept.length > MOST_OUTPUT
  })
  return () =>
    isFull
      ? `${kept.slice(0, MOST_OUTPUT)}\n[more output was left out]`
      : kept + mask.push(decoder.decode()) + mask.end()
}

const endGroup = async (child: ChildProcess, clock: Clock): Promise<void> => {
  signalGroup(child, "SIGTERM")
  await sleep(clock, TERM_MS)
  if (child.exitCode === null && child.signalCode === null) signalGroup(child, "SIGKILL")
}

/** A group that is gone is what was wanted. */
const signalGroup = ({ pid }: ChildProcess, signal: "SIGTERM" | "SIGKILL"): void => {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // Nobody is left in it.
  }
}
