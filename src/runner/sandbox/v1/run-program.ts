/** `POST /v1/processes/run`: runs a program to its end and returns its output, capped. */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { signalGroup } from "../../../lib/signal-group.ts"
import type { Launcher } from "./program.ts"
import type { RunRequest } from "./requests.ts"

export interface RunResult {
  /** Null if a signal ended the program. */
  readonly exitCode: number | null
  readonly timedOut: boolean
  readonly stdout: string
  readonly stderr: string
  readonly stdoutTruncated: boolean
  readonly stderrTruncated: boolean
  readonly durationMs: number
}

export const RUN_LIMITS = {
  defaultTimeoutMs: 30_000,
  maxTimeoutMs: 300_000,
  maxOutputBytes: 1024 * 1024,
} as const

const TERM_MS = 1000
/** How long output is still read after the exit: processes that the program left behind keep its pipes open. */
const LINGER_MS = 250

export const runProgram = async (
  request: RunRequest,
  launcher: Launcher,
  clock: Clock,
  gone: AbortSignal,
): Promise<RunResult> => {
  const timeoutMs = Math.min(
    request.timeoutMs ?? RUN_LIMITS.defaultTimeoutMs,
    RUN_LIMITS.maxTimeoutMs,
  )
  const most = Math.min(
    request.maxOutputBytes ?? RUN_LIMITS.maxOutputBytes,
    RUN_LIMITS.maxOutputBytes,
  )
  const startedAt = performance.now()
  const child = await launcher.start(request, crypto.randomUUID(), "ignore")
  const stdout = collect(child.stdout, most)
  const stderr = collect(child.stderr, most)
  let timedOut = false
  const end = () => {
    signalGroup(child.pid, "SIGTERM")
    void sleep(clock, TERM_MS).then(() => signalGroup(child.pid, "SIGKILL"))
  }
  const cancelTimeout = clock.after(timeoutMs, () => {
    timedOut = true
    end()
  })
  gone.addEventListener("abort", end)
  if (gone.aborted) end()
  try {
    await child.exited
    const linger = new AbortController()
    await Promise.race([
      Promise.all([stdout.done, stderr.done]),
      sleep(clock, LINGER_MS, linger.signal),
    ])
    linger.abort()
    return {
      exitCode: timedOut || child.signalCode !== null ? null : child.exitCode,
      timedOut,
      stdout: stdout.text(),
      stderr: stderr.text(),
      stdoutTruncated: stdout.isTruncated(),
      stderrTruncated: stderr.isTruncated(),
      durationMs: Math.round(performance.now() - startedAt),
    }
  } finally {
    cancelTimeout()
    gone.removeEventListener("abort", end)
    signalGroup(child.pid, "SIGKILL")
    stdout.stop()
    stderr.stop()
  }
}

/** Keeps the first `most` bytes. The rest is read and dropped, so that the program can continue. */
const collect = (stream: ReadableStream<Uint8Array>, most: number) => {
  const pieces: Uint8Array[] = []
  let size = 0
  let isTruncated = false
  const reader = stream.getReader()
  const read = async () => {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const kept = value.subarray(0, most - size)
      if (kept.length < value.length) isTruncated = true
      if (kept.length > 0) pieces.push(kept)
      size += kept.length
    }
  }
  return {
    done: read().catch(() => {}),
    text: () => Buffer.concat(pieces).toString("utf8"),
    isTruncated: () => isTruncated,
    stop: () => void reader.cancel().catch(() => {}),
  }
}
