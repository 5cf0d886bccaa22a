/** Functions of the C library that Bun does not offer. */
import { dlopen, FFIType } from "bun:ffi"
import { describeError, type Log } from "../../lib/log.ts"

export interface Libc {
  /** True if the child had ended and its exit code was taken. */
  readonly reap: (pid: number) => boolean
  readonly prctl: (option: number, value: number) => void
}

const WNOHANG = 1
const LIBRARIES = ["libc.so.6", `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`]

export const openLibc = (log: Log): Libc | undefined => {
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
        reap: (pid) => symbols.waitpid(pid, null, WNOHANG) === pid,
        prctl: (option, value) => void symbols.prctl(option, value, 0, 0, 0),
      }
    } catch (error) {
      log.debug("libc.missing", { name, error: describeError(error) })
    }
  }
  log.warn("libc.off", { why: "no C library found: orphans remain, and memory is readable" })
  return undefined
}
