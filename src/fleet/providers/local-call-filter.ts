/**
 * The kernel calls that an isolated sandbox does not have, as a program of seccomp: those that take space of the disk without writing it.
 * One call of them takes all that is free in no time, before any measurement of the sandbox. Programs have another way: the C library
 * writes zeros where `fallocate` is not supported. Pure.
 */

/** Of linux/audit.h, with the numbers of the calls on this architecture. */
const machines = [
  { arch: 0xc000003e, fallocate: 285, ioctl: 16 },
  { arch: 0x40000003, fallocate: 324, ioctl: 54 },
  { arch: 0xc00000b7, fallocate: 47, ioctl: 29 },
  { arch: 0x40000028, fallocate: 352, ioctl: 54 },
] as const
/** The same on every architecture. A ring of `io_uring` makes calls that no filter sees. */
const IO_URING_SETUP = 425
const FILE_SETATTR = 469
/** Calls of the x32 interface have other numbers. No program needs it. */
const X32 = 0x40000000

/** Modes of `fallocate` that give space back: FALLOC_FL_PUNCH_HOLE, FALLOC_FL_COLLAPSE_RANGE. */
const FREES = 0x02 | 0x08

/** Older forms of `fallocate`, and the size of the pieces in which XFS takes space for a file. */
const TAKES = [
  // FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE
  0x40305828, 0x4030582a, 0x40305839,
  // The same of 32-bit programs
  0x402c5828, 0x402c582a, 0x402c5839,
  // FS_IOC_FSSETXATTR
  0x401c5820,
]

const ENOSYS = 38
const EOPNOTSUPP = 95
const ALLOW = 0x7fff0000
const refuse = (code: number): number => 0x00050000 | code

/** Places in `struct seccomp_data`. */
const NUMBER = 0
const ARCH = 4
const SECOND_ARGUMENT = 24

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number]

const load = (place: number): Instruction => [0x20, 0, 0, place]
const answer = (value: number): Instruction => [0x06, 0, 0, value]
/** Runs what follows only if the loaded word is this one. */
const when = (value: number, then: readonly Instruction[]): readonly Instruction[] => [
  [0x15, 0, then.length, value],
  ...then,
]
const whenAtLeast = (value: number, then: readonly Instruction[]): readonly Instruction[] => [
  [0x35, 0, then.length, value],
  ...then,
]
const whenAnyBit = (bits: number, then: readonly Instruction[]): readonly Instruction[] => [
  [0x45, 0, then.length, bits],
  ...then,
]

const ofMachine = ({ arch, fallocate, ioctl }: (typeof machines)[number]): readonly Instruction[] =>
  when(arch, [
    load(NUMBER),
    ...whenAtLeast(X32, [answer(refuse(ENOSYS))]),
    ...when(IO_URING_SETUP, [answer(refuse(ENOSYS))]),
    ...when(FILE_SETATTR, [answer(refuse(ENOSYS))]),
    ...when(fallocate, [
      load(SECOND_ARGUMENT),
      ...whenAnyBit(FREES, [answer(ALLOW)]),
      answer(refuse(EOPNOTSUPP)),
    ]),
    ...when(ioctl, [
      load(SECOND_ARGUMENT),
      ...TAKES.flatMap((command) => when(command, [answer(refuse(EOPNOTSUPP))])),
    ]),
    answer(ALLOW),
  ])

/** The form that bubblewrap reads: eight bytes for each instruction, in the order of this machine. */
export const callFilter = (): Uint8Array => {
  const program = [load(ARCH), ...machines.flatMap(ofMachine), answer(ALLOW)]
  const bytes = new DataView(new ArrayBuffer(program.length * 8))
  for (const [index, [code, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.setUint16(index * 8, code, true)
    bytes.setUint8(index * 8 + 2, ifTrue)
    bytes.setUint8(index * 8 + 3, ifFalse)
    bytes.setUint32(index * 8 + 4, value, true)
  }
  return new Uint8Array(bytes.buffer)
}
