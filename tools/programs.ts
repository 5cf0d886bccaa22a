/** Runs a program of the sandbox for a tool. An aborted call kills the program; an error contains the last line of stderr. */
import { spawn } from "node:child_process"

export interface ProgramCall {
  readonly program: string
  readonly args: readonly string[]
  readonly signal: AbortSignal
  readonly timeoutMs: number
  /** Advice for the model when the program is not installed. */
  readonly ifMissing: string
}

export const runProgram = async ({
  program,
  args,
  signal,
  timeoutMs,
  ifMissing,
}: ProgramCall): Promise<string> => {
  const child = spawn(program, args, {
    stdio: ["ignore", "pipe", "pipe"],
    signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    killSignal: "SIGKILL",
  })
  const stdout = collect(child.stdout)
  const stderr = collect(child.stderr)
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  child.once("error", reject)
  child.once("close", resolve)
  const code = await promise.catch((error: unknown) => {
    signal.throwIfAborted()
    if (error instanceof Error && "code" in error && error.code === "ENOENT") {
      throw new Error(`${program} is not installed in this sandbox. ${ifMissing}`, { cause: error })
    }
    throw new Error(`${program} was stopped after its timeout of ${timeoutMs / 1000} s.`, {
      cause: error,
    })
  })
  if (code === 0) return stdout()
  const lastLine = stderr().trim().split("\n").at(-1) ?? ""
  throw new Error(`${program} failed${lastLine === "" ? "" : `: ${lastLine.slice(0, 300)}`}.`)
}

const MAX_OUTPUT_BYTES = 1024 * 1024

const collect = (stream: NodeJS.ReadableStream): (() => string) => {
  const chunks: Buffer[] = []
  let size = 0
  stream.on("data", (chunk: Buffer) => {
    if (size < MAX_OUTPUT_BYTES) chunks.push(chunk)
    size += chunk.length
  })
  return () => Buffer.concat(chunks).toString("utf8")
}
