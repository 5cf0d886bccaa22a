/**
 * Closes the memory and the environment of this process to other processes of the same user. Where the agent has no user of
 * its own it could otherwise read the secrets of the runner.
 */
import { readFileSync } from "node:fs"
import { describeError, type Log } from "../../lib/log.ts"
import { openLibc } from "./libc.ts"

const PR_SET_DUMPABLE = 4

export const closeMemory = (log: Log): void => {
  const libc = openLibc(log)
  if (libc === undefined) return
  libc.prctl(PR_SET_DUMPABLE, 0)
  try {
    // Kernels before 5.14 close this to the process itself too. The reaper needs it to know the children of the runtime.
    readFileSync("/proc/self/fdinfo/0")
  } catch (error) {
    libc.prctl(PR_SET_DUMPABLE, 1)
    log.warn("memory.readable", { why: describeError(error) })
  }
}
