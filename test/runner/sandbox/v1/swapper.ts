/** Exchanges a directory and a link to the outside, again and again; prints the number of swaps. The attack test starts it. */
import { dlopen, FFIType, ptr } from "bun:ffi"

const AT_FDCWD = -100
const RENAME_EXCHANGE = 2

const { symbols } = dlopen("libc.so.6", {
  renameat2: {
    args: [FFIType.i32, FFIType.ptr, FFIType.i32, FFIType.ptr, FFIType.u32],
    returns: FFIType.i32,
  },
})

const [, , place = "", link = "", count = "0"] = process.argv
const [first, second] = [place, link].map((path) => Buffer.from(`${path}\0`))
if (first === undefined || second === undefined) throw new Error("two paths are needed")
let swaps = 0
for (let turn = 0; turn < Number(count); turn += 1) {
  const code = symbols.renameat2(AT_FDCWD, ptr(first), AT_FDCWD, ptr(second), RENAME_EXCHANGE)
  if (code === 0) swaps += 1
  // Sleep: leaves the requests time between some of the swaps.
  if (turn % 10 === 0) Bun.sleepSync(0.2)
}
process.stdout.write(String(swaps))
