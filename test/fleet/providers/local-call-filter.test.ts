/** The filter of kernel calls of isolated sandboxes, run as the kernel runs it. */
import { expect, test } from "bun:test"
import { callFilter } from "../../../src/fleet/providers/local-call-filter.ts"

const X86_64 = 0xc000003e
const I386 = 0x40000003
const AARCH64 = 0xc00000b7
const ARM = 0x40000028
const allowed = "allowed"

/** What the kernel does with a call: the error that the program gets, or that it is allowed. */
const answerTo = (arch: number, number: number, argument = 0): string => {
  const bytes = callFilter()
  const program = new DataView(bytes.buffer)
  const words: Readonly<Record<number, number>> = { 0: number, 4: arch, 24: argument }
  let loaded = 0
  for (let at = 0; at < bytes.length / 8; at += 1) {
    const value = program.getUint32(at * 8 + 4, true)
    const jump = (isTrue: boolean) => program.getUint8(at * 8 + (isTrue ? 2 : 3))
    switch (program.getUint16(at * 8, true)) {
      case 0x20:
        loaded = words[value] ?? 0
        break
      case 0x15:
        at += jump(loaded === value)
        break
      case 0x35:
        at += jump(loaded >= value)
        break
      case 0x45:
        at += jump((loaded & value) !== 0)
        break
      case 0x06:
        return value === 0x7fff0000 ? allowed : `error ${value & 0xffff}`
      default:
        throw new Error("an instruction that this test does not know")
    }
  }
  throw new Error("the program has no end")
}

test.each([
  ["x86-64", X86_64, 285, 16],
  ["32-bit programs of it", I386, 324, 54],
  ["ARM of 64 bits", AARCH64, 47, 29],
  ["ARM of 32 bits", ARM, 352, 54],
])("on %s no call takes space without writing it", (_name, arch, fallocate, ioctl) => {
  for (const mode of [0, 0x01, 0x10, 0x20, 0x40, 0x41])
    expect(answerTo(arch, fallocate, mode)).toBe("error 95")
  for (const command of [0x40305828, 0x4030582a, 0x40305839, 0x402c5828, 0x401c5820])
    expect(answerTo(arch, ioctl, command)).toBe("error 95")
  expect(answerTo(arch, 425)).toBe("error 38")
  expect(answerTo(arch, 469)).toBe("error 38")
})

test("calls that give space back, and all others, are allowed", () => {
  // Holes, and the removal of a range.
  for (const mode of [0x03, 0x08]) expect(answerTo(X86_64, 285, mode)).toBe(allowed)
  // The number of columns of a terminal, the flags of a file, FS_IOC_UNRESVSP64.
  for (const command of [0x5413, 0x80086601, 0x4030582b])
    expect(answerTo(X86_64, 16, command)).toBe(allowed)
  for (const number of [0, 1, 57, 59, 257, 424, 435]) expect(answerTo(X86_64, number)).toBe(allowed)
  // A number means another call on another architecture.
  expect(answerTo(AARCH64, 285)).toBe(allowed)
  expect(answerTo(0xdead, 285)).toBe(allowed)
})

test("the second table of numbers of x86-64 is closed as a whole", () => {
  for (const number of [0x40000000, 0x40000000 + 285])
    expect(answerTo(X86_64, number)).toBe("error 38")
})
