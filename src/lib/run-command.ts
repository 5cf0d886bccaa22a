/**
 * Runs a program to its end in a process group of its own. A timeout or an abort ends the whole group; the output is
 * capped. For short-lived child processes; OpenCode, services and child runners have supervisors of their own.
 */
import type { ChildProcess } from "node:child_process"
import { type Clock, sleep, systemClock } from "./clock.ts"
import { signalGroup } from "./signal-group.ts"

export interface CommandOptions {
  /** The whole environment: nothing is inherited. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly timeoutMs: number
  readonly cwd?: string
  /** Written to standard input, which is then closed. Without it the input is empty. */
  readonly input?: string | Uint8Array
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  readonly signal?: AbortSignal | undefined
  /** Characters that are kept of each stream; the rest is read and dropped, so that the program can continue. */
  readonly maxOutput?: number
  /** Creates a transform per stream, for example one that masks secrets. Runs before the output is capped. */
  readonly transform?: () => OutputTransform
  readonly onStderr?: (chunk: string) => void
  readonly onStarted?: (pid: number) => void
  readonly clock?: Clock
}

export interface OutputTransform {
  readonly push: (text: string) => string
  /** The text that is held back, once the stream has ended. */
  readonly end: () => string
}

export interface CommandResult {
  /** 137 for a program that was ended by a signal, as in a shell. */
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
  readonly timedOut: boolean
  readonly aborted: boolean
}

/** The program could not be started: it does not exist or is not executable. */
export class CommandNotStarted extends Error {
  override readonly name = "CommandNotStarted"
}

const MAX_OUTPUT = 1024 * 1024
/** How long output is still read after the exit: daemons that the program started keep its pipes open. */
const LINGER_MS = 250
const TERM_MS = 1000
const KILLED_EXIT_CODE = 137

export const runCommand = async (
  program: string,
  args: readonly string[],
  options: CommandOptions,
): Promise<CommandResult> => {
  const { signal, clock = systemClock, maxOutput = MAX_OUTPUT } = options
  // Imported on demand: loading it takes 7 ms, which would delay the gateway's first response.
  const { execa } = await import("execa")
  const child = execa(program, args, {
    ...(options.cwd !== undefined && { cwd: options.cwd }),
    env: options.env,
    extendEnv: false,
    detached: true,
    cleanup: false,
    ...(options.user && { uid: options.user.uid, gid: options.user.gid }),
    stdin: options.input === undefined ? "ignore" : "pipe",
    stdout: "pipe",
    stderr: "pipe",
    buffer: false,
    reject: false,
  })
  const stdout = collect(child.stdout, maxOutput, options.transform?.())
  const stderr = collect(child.stderr, maxOutput, options.transform?.(), options.onStderr)
  if (options.input !== undefined) {
    // A program that does not read its input closes the pipe.
    child.stdin?.on("error", () => {})
    child.stdin?.end(options.input)
  }
  const exited = exitCodeOf(child, program)
  if (child.pid !== undefined) options.onStarted?.(child.pid)
  let ending: "timed-out" | "aborted" | undefined
  const end = (why: "timed-out" | "aborted") => () => {
    ending ??= why
    void endGroup(child.pid, exited, clock)
  }
  const abort = end("aborted")
  const cancelTimeout = clock.after(options.timeoutMs, end("timed-out"))
  if (signal?.aborted) abort()
  signal?.addEventListener("abort", abort)
  try {
    const exitCode = await exited
    await Promise.race([child, sleep(clock, LINGER_MS)])
    return {
      exitCode,
      stdout: stdout(),
      stderr: stderr(),
      timedOut: ending === "timed-out",
      aborted: ending === "aborted",
    }
  } finally {
    cancelTimeout()
    signal?.removeEventListener("abort", abort)
    child.stdout?.destroy()
    child.stderr?.destroy()
    signalGroup(child.pid, "SIGKILL")
  }
}

type Child = PromiseLike<StartResult> & {
  readonly nodeChildProcess: Pick<ChildProcess, "once">
}

interface StartResult {
  readonly exitCode?: number | undefined
  readonly signal?: string | undefined
  readonly cause?: unknown
}

const exitCodeOf = (child: Child, program: string): Promise<number> =>
  new Promise((resolve, reject) => {
    child.nodeChildProcess.once("exit", (code) => resolve(code ?? KILLED_EXIT_CODE))
    // With `reject: false` a failed start is a result without an exit code and without a signal.
    const checkStart = async () => {
      const { exitCode, signal, cause } = await child
      if (exitCode !== undefined || signal !== undefined) return
      reject(new CommandNotStarted(`${program} could not be started`, { cause }))
    }
    void checkStart()
  })

const collect = (
  stream: NodeJS.ReadableStream | null | undefined,
  maxOutput: number,
  transform: OutputTransform = { push: (text) => text, end: () => "" },
  onChunk?: (text: string) => void,
): (() => string) => {
  const decoder = new TextDecoder()
  let kept = ""
  let isFull = false
  stream?.on("data", (chunk: Buffer) => {
    const text = decoder.decode(chunk, { stream: true })
    onChunk?.(text)
    if (isFull) return
    // Transformed first, cut afterwards: a mask does not recognise a secret that is cut in two.
    kept += transform.push(text)
    isFull = kept.length > maxOutput
  })
  return () =>
    isFull
      ? `${kept.slice(0, maxOutput)}\n[more output was left out]`
      : kept + transform.push(decoder.decode()) + transform.end()
}

const endGroup = async (
  pid: number | undefined,
  exited: Promise<unknown>,
  clock: Clock,
): Promise<void> => {
  signalGroup(pid, "SIGTERM")
  const isOver = exited.then(
    () => true,
    () => true,
  )
  const isLate = sleep(clock, TERM_MS).then(() => false)
  if (!(await Promise.race([isOver, isLate]))) signalGroup(pid, "SIGKILL")
}
