/** Runs a program of the sandbox for a tool; it ends with the call, and its failure is told in one line. */
import { spawn } from "node:child_process"

export interface Run {
  readonly program: string
  readonly args: readonly string[]
  readonly signal: AbortSignal
  readonly timeoutMs: number
  /** What to do when the program is not there. */
  readonly missing: string
}

export const runProgram = async ({
  program,
  args,
  signal,
  timeoutMs,
  missing,
}: Run): Promise<string> => {
  const child = spawn(program, args, {
    stdio: ["ignore", "pipe", "pipe"],
    signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    killSignal: "SIGKILL",
  })
  const output = gather(child.stdout)
  const complaints = gather(child.stderr)
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  child.once("error", reject)
  child.once("close", resolve)
  const code = await promise.catch((error: unknown) => {
    signal.throwIfAborted()
    if (error instanceof Error && "code" in error && error.code === "ENOENT") {
      throw new Error(`${program} is not installed in this sandbox. ${missing}`, { cause: error })
    }
    throw new Error(`${program} took longer than ${timeoutMs / 1000} s and was stopped.`, {
      cause: error,
    })
  })
  if (code === 0) return output()
  const last = complaints().trim().split("\n").at(-1) ?? ""
  throw new Error(`${program} failed${last === "" ? "" : `: ${last.slice(0, 300)}`}.`)
}

const MOST_BYTES = 1024 * 1024

const gather = (stream: NodeJS.ReadableStream): (() => string) => {
  const chunks: Buffer[] = []
  let size = 0
  stream.on("data", (chunk: Buffer) => {
    if (size < MOST_BYTES) chunks.push(chunk)
    size += chunk.length
  })
  return () => Buffer.concat(chunks).toString("utf8")
}
