/** Reaps the orphans that the kernel hands to this process: nobody else will ever ask for their exit codes. */
import { dlopen, FFIType } from "bun:ffi"
import { readdirSync, readFileSync } from "node:fs"
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { type ProcessRow, readProcess } from "./processes.ts"

export interface ReaperOptions {
  readonly clock: Clock
  readonly log: Log
}

export interface Reaper {
  readonly reaped: () => number
  readonly stop: () => void
}

const SCAN_MS = 1000
const WNOHANG = 1
const PR_SET_CHILD_SUBREAPER = 36
const LIBRARIES = ["libc.so.6", `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`]

/**
 * As PID 1 every orphan of the machine comes here; as any other process only by asking the kernel for the
 * orphans of its own descendants, which is what makes both the same.
 */
export const startReaper = ({ clock, log }: ReaperOptions): Reaper => {
  const libc = openLibc(log)
  if (libc === undefined) return { reaped: () => 0, stop: () => {} }
  if (process.pid !== 1) libc.adoptOrphans()
  let seen: readonly ProcessRow[] = []
  let count = 0
  let cancel = () => {}
  const scan = () => {
    const zombies = childrenOfSelf().filter(({ isZombie }) => isZombie)
    const candidates = leftOver(seen, zombies)
    const awaited = candidates.length > 0 ? awaitedByRuntime() : new Set<number>()
    for (const { pid } of candidates) if (!awaited.has(pid) && libc.reap(pid)) count += 1
    seen = zombies
    cancel = clock.after(SCAN_MS, scan)
  }
  cancel = clock.after(SCAN_MS, scan)
  return { reaped: () => count, stop: () => cancel() }
}

/**
 * The children whose exit codes Bun waits for: it holds a pidfd of each until it has the code. To reap one of them
 * would leave its `exited` without an answer, or with a wrong one.
 */
const awaitedByRuntime = (): ReadonlySet<number> => {
  const pids = new Set<number>()
  for (const fd of readdirSync("/proc/self/fdinfo")) {
    try {
      const [, pid] = /^Pid:\s+(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8")) ?? []
      if (pid !== undefined) pids.add(Number(pid))
    } catch {
      // Closed since it was listed.
    }
  }
  return pids
}

/**
 * Zombies that two scans in a row have seen. Where the kernel has no pidfds Bun asks for its children's exit codes
 * within a turn of the loop, so one that is still there a second later is nobody's.
 */
export const leftOver = (
  before: readonly ProcessRow[],
  now: readonly ProcessRow[],
): readonly ProcessRow[] =>
  now.filter(({ pid, startTime }) =>
    before.some((earlier) => earlier.pid === pid && earlier.startTime === startTime),
  )

/** The kernel's own list of our children, one file a thread: cheap on a machine with thousands of processes. */
const childrenOfSelf = (): readonly ProcessRow[] =>
  readdirSync("/proc/self/task").flatMap((thread) =>
    readChildren(thread).flatMap((pid) => readProcess(pid) ?? []),
  )

const readChildren = (thread: string): readonly number[] => {
  try {
    const text = readFileSync(`/proc/self/task/${thread}/children`, "utf8")
    return text.split(" ").filter(Boolean).map(Number)
  } catch {
    // The thread has ended since it was listed.
    return []
  }
}

const openLibc = (log: Log) => {
  for (const name of LIBRARIES) {
    try {
      const { symbols } = dlopen(name, {
        waitpid: { args: [FFIType.i32, FFIType.ptr, FFIType.i32], returns: FFIType.i32 },
        prctl: {
          args: [FFIType.i32, FFIType.u64, FFIType.u64, FFIType.u64, FFIType.u64],
          returns: FFIType.i32,
        },
      })
      return {
        reap: (pid: number) => symbols.waitpid(pid, null, WNOHANG) === pid,
        adoptOrphans: () => symbols.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
      }
    } catch (error) {
      log.debug("reaper.no-library", { name, error: describeError(error) })
    }
  }
  log.warn("reaper.off", { why: "no C library found: orphans stay as zombies" })
  return undefined
}
