/** Reaps orphans: processes that the kernel reparents to this process when their parent exits. */
import { readdirSync, readFileSync } from "node:fs"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { openLibc } from "./libc.ts"
import { type ProcessRow, readProcess } from "../../lib/process-identity.ts"

export interface ReaperOptions {
  readonly clock: Clock
  readonly log: Log
}

export interface Reaper {
  readonly reaped: () => number
  readonly stop: () => void
}

const SCAN_MS = 1000
const PR_SET_CHILD_SUBREAPER = 36

/**
 * PID 1 gets every orphan of the machine. As another process, the runner registers as a child subreaper and gets the
 * orphans of its own descendants.
 */
export const startReaper = ({ clock, log }: ReaperOptions): Reaper => {
  const libc = openLibc(log)
  if (libc === undefined) return { reaped: () => 0, stop: () => {} }
  if (process.pid !== 1) libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
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
 * The children whose exit codes Bun waits for: Bun holds a pidfd of each until it has the code. If one of them were
 * reaped here, its `exited` would never resolve, or resolve to a wrong code.
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
 * Zombies that two consecutive scans have seen. On a kernel without pidfds Bun reads exit codes within a turn of the
 * event loop, so a zombie that is still there a second later is an orphan.
 */
export const leftOver = (
  before: readonly ProcessRow[],
  now: readonly ProcessRow[],
): readonly ProcessRow[] =>
  now.filter(({ pid, startTime }) =>
    before.some((earlier) => earlier.pid === pid && earlier.startTime === startTime),
  )

/** The kernel's list of our children, one file per thread: cheap even with thousands of processes. */
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
